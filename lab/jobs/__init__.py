"""Jobs: who measures on which board, who waits for it, and reservations."""
