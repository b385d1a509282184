"""Deterministic simulation of what must not lose or double anything.

One seed decides a schedule: which process runs next and up to where, which of them dies, stands still or loses the database, and whose
clock is wrong. The code under test is boardlab's own; docs/simulation.md says how to read a failing seed.
"""
