"""A Linux that runs in the memory of a board: its root file system, for virtual boards and for real ones."""
