"""Engines: where rows are counted, on this machine or on the workers of a cluster."""
