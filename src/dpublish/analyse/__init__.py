"""Learning from a release."""
