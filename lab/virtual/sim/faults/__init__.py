"""Faults of simulated boards and of the bench around them.

Each is a class: its documentation describes it, its attributes are its parameters, and its `outcome` is boardlab's
expected result. `catalogue.FAULTS` has all of them by name, a plan has their times.
"""
