"""Methods that answer one query at a time."""
