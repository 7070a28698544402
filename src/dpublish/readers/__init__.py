"""Tables from files, frames and databases, whoever owns the rows.

A neutral room: the private side reads the curator's rows with it, and methods read public tables by the very same rules. It
knows how bytes become cells and codes, and nothing of budgets, noise or releases. What it hands out is as private as what it
was given: no text made here quotes a cell.
"""
