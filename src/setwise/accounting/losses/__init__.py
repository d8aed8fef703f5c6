"""Privacy losses: exact, on a lattice, and their sums by transform."""
