"""The service: a REST API and web pages for a team that shares data sets and a ledger."""
