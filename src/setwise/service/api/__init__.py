"""The REST API: each module has routes, the classes of their request bodies, and builders of their responses."""
