"""Privacy-loss distributions: exact ones, ones on a lattice, and their sums by fast Fourier transform."""
