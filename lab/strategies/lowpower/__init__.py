"""How a board is put to sleep and woken: `control` for every mode, on `suspendmonitor` and `partialio`.

What a mode is and how a suspend is judged stands in `lab.benchmarks.lowpower`. docs/concepts.md draws the whole way.
"""
