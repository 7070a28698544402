"""Compiled loops of the noise package. They see words, tables and counts; every rare branch goes
back to exact Python code."""
