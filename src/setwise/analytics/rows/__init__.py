"""Row expressions: values computed from one row. They never fail on a row, and all engines compute the same values."""
