"""Query desks over HTTP: who may ask how often, and the process that answers."""
