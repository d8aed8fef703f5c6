"""The command line: a module for each command or family of them, and `main` that tells every error in one sentence."""
