"""Every figure and number of the paper on set-wise composition (CesarRo21), recomputed beside Setwise's own numbers.

One module per figure: it computes a table of numbers, draws the table, and lists the claims of the paper that it
checks. `study` runs them. Texts such as `lem:GM` and `fig:gap` are the labels of statements and figures in the paper.
"""
