"""Release methods, one folder per method."""
