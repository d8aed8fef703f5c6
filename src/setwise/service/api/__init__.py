"""REST: each module has routes, the bodies that they take and the shapes of their answers."""
