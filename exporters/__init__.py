"""Prometheus exporter of the store's results and the farm's state.

Each source is polled in a thread of its own, so that a scrape never waits for one, and a broken one never hides others.
Collectors are given their registry; nothing is global. `lab exporter` puts them together (lab/cli/exporter.py).
"""
