"""Where the private state of a series is kept: a file of its own, or tables beside the data."""
