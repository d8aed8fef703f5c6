"""Queries of the service: checked, planned, charged, run on engines (connections), and answered at padded times.

Padded times are 1, 2, 4, ... times `answer_step` (a setting, in seconds) after the request. An answer that leaves at
such a time does not reveal exactly how long the private rows were read.
"""
