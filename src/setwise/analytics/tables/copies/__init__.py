"""Commands for the data holder that write a copy of a text file, for files that need more than one change of a cell."""
