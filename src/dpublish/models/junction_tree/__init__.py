"""The graphical model of joined histograms."""
