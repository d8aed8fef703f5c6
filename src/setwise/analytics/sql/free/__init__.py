"""The free part of a statement: SQL over public tables and released rows (noisy results), which costs no budget."""
