"""The command line, with one module for each command or family of commands.

`main` prints every error as one sentence and exits with the status that belongs to the error's class.
"""
