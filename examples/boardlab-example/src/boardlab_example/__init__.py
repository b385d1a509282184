"""A package of one's own for boardlab."""
