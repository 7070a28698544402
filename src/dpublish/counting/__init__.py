"""Exact statistics of private rows."""
