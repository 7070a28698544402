"""Weights that make public rows agree with noisy tables."""
