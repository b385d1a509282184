"""Simulated boards: real output at the wire, and faults on request.

A board is a deterministic state machine in virtual time (`lab.virtual.sim.board`): the same seed and the same inputs
give the same bytes at the same instants. `lab.virtual.sim.backend` puts it on the bench's UARTs and power input.
"""
