"""The command line: one file per command, and `main` that turns every error into one sentence."""
