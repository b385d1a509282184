"""One module per section of the performance guide: what it needs, what it runs, what its numbers mean."""
