"""Compiled loops over the bytes of text files. All release the interpreter lock, so that threads can share the work."""
