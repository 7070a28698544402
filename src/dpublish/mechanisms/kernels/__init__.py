"""Compiled loops of the mechanisms."""
