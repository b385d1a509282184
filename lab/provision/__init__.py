"""Release files, and the writers that put them on a board."""
