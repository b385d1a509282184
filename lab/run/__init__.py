"""A run: cycles on one board; each attempt is stored at once."""
