"""Changes between guides, their causes, and trends."""
