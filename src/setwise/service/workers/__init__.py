"""Worker processes for calculations that would block a replica."""
