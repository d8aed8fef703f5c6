"""Private states of live series, each in a DuckDB file of its own or in the database that has the data.

A live series is a set of noisy user counts that is released period by period. Its private state stores which users were
counted, and the noise.
"""
