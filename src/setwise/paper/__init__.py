"""Every figure and number of the paper, recomputed, with ours beside it.

One module per figure: it computes a table, draws it, and says which claims of the paper it checks. `study` runs them.
"""
