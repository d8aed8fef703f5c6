"""Every figure and number of the paper on set-wise composition (CesarRo21), recomputed, with Setwise's own beside it.

One module per figure: it computes a table of numbers, draws the table, and lists the claims of the paper that it
checks. `study` runs them. Texts such as `lem:GM` and `fig:gap` are the labels of statements and figures in the paper.
"""
