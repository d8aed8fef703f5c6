"""The databases that read tables: each bounds contributions and hands over an exact histogram."""
