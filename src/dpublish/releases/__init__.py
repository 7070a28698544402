"""Releases as analysts open them, one folder per kind."""
