"""Compiled loops of the private side. All release the interpreter lock, so that two threads can share the work."""
