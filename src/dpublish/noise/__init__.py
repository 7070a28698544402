"""The one tap: exact noise, and the only source of randomness that a release may depend on."""
