"""The free part of a statement: SQL over released rows and public tables, which costs no budget."""
