"""Queries of the service: checked, planned, charged, run on engines, and answered at padded times.

Padded times are 1, 2, 4, ... times `answer_step` (a setting, in seconds) after the request.
"""
