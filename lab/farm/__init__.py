"""A lab host: its farm.yaml, its services and its runs."""
