"""The judge: changes of numbers, their size and their likely cause."""
