"""Row expressions: values computed of one row, which no row can make fail and which every engine computes alike."""
