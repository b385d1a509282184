"""A Linux in a board's memory, for virtual and real boards."""
