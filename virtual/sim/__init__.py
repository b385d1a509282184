"""Simulated boards: they say what real ones say, at the wire, and misbehave on request.

A board is a deterministic state machine in virtual time (`virtual.sim.board`): the same seed and the same inputs give
the same bytes at the same instants. `virtual.sim.backend` puts it on the bench's UARTs and power input.
"""
