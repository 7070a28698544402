"""JSON for programs: the same requests as the command line, over HTTP."""
