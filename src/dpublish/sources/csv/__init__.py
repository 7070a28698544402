"""Delimited text, read in one pass: the tokenizer, the coder and their kernels."""
