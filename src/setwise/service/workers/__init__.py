"""Worker processes for calculations that would block a replica, a process of the service that answers requests."""
