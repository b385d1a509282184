"""Benchmarks of a simulated board: published numbers with noise.

They take their time and print in the program's own format.

Nothing here measures anything. A run on a simulated board says so in its provenance and in the flag of every sample.
"""
