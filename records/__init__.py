"""What measurements leave in a folder: figures, and how they came about."""
