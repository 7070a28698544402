"""What the methods over an explicit list of queries share."""
