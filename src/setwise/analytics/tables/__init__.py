"""Tools for files of tables: a check of a file for its owner, and lists of public group labels (domains)."""
