"""Compiled loops of the public side."""
