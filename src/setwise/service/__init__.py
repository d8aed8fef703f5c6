"""The service: REST and web pages for a team that shares data sets and a ledger."""
