"""The ways to write a medium: each is pure command text with a parser for every answer, and a writer that follows the answers."""
