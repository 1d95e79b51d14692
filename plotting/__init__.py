"""Plots: figures without a screen, names beside points, what strategies look like."""
