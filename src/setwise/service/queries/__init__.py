"""Queries of the service: checked, planned, charged, run on engines, and answered at padded times."""
