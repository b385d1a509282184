"""Rules on a guide's numbers, and the evidence about each."""
