"""Commands to paste that errors of the command line propose: the running command, changed so that it is answered."""
