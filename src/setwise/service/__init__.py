"""The service: a REST API and web pages for a team that shares datasets and a ledger."""
