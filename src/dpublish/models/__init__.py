"""Post-processing of noisy numbers that both sides run: no rows, no noise source."""
