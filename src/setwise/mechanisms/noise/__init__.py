"""Integer noise: Laplace, Gaussian, rounded and truncated."""
