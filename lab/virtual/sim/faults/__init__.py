"""Faults that simulated boards, and the bench around them, can be made to have.

Each is a class whose documentation says what goes wrong, whose attributes are its parameters, and whose `outcome` says
what boardlab makes of it. `catalogue.FAULTS` has all of them by name, `plan` says when which one strikes.
"""
