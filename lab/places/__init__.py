"""Boards on other hosts: labgrid's exports and the users of places."""
