"""Row expressions: values computed from one row. No row can make one fail, and all engines compute them alike."""
