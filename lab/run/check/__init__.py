"""Checks of a board type against a bare log of a boot, and drafts of new types.

A bare log has no stamps. It gets made-up ones, and is then watched like a live boot (`lab.run.rewatch`). So moments,
flow, evidence and verdict are those of a run, and no result concerns time.
"""
