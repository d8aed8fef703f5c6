"""A Model Context Protocol server: a program that talks asks tables as an analyst does, within an account's budget."""
