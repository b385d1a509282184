"""Readers of guides in their forms."""
