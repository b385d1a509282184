"""Checks of a lab's hosts, results, services and files."""
