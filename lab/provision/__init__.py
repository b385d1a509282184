"""Releases as files, and their way onto a board: what is written where, by which way, verified how."""
