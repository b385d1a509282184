"""The judge: whether a number moved, by how much, and what else moved with it."""
