"""State of the farm, with one module per source."""
