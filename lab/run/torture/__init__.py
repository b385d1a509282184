"""Torture: random mutations of a good boot's recording, to see whether any of them makes a wrong number.

A mutation changes what happened, to the board, the line or the host, and so also what number would be right. Each runs
through the recognition of a live boot, which must give a number that is right within its ±, or flag it, or refuse it.
"""
