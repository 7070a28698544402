"""Compiled loops of the local model, for whoever handles the reports of many people. A device does
without them."""
