"""`python -m setwise` is the command `setwise`."""

from setwise.cli.main import main

main()
