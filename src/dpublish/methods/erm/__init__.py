"""Empirical risk minimisation to a certified gradient, shared by the classifier and the importance
weights."""
