"""Benchmarks of a simulated board: they take their time and print, in the program's own format, published numbers with noise.

Nothing here measures anything. A run on a simulated board says so in its provenance and in the flag of every sample.
"""
