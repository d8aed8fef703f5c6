"""Integer noise distributions: Laplace, and Gaussian noise that is discrete, rounded, truncated or partly shared."""
