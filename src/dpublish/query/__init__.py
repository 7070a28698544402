"""Conditions and SQL over a release."""
