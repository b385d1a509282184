"""Jobs, their queue, and reservations of boards."""
