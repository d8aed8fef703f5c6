"""Suggestions of statements that are accepted in place of a refused one."""
