"""A run: cycles measured on one board, each attempt committed to the store as it ends."""
