"""Guides, findings and comparisons for people and programs."""
