"""The figures of the paper and Setwise's own, one or two per module."""
