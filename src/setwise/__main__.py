"""Entry point of `python -m setwise`, which is the same as the command `setwise`."""

from setwise.cli.main import main

main()
