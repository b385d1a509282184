"""Apache Otava asked night by night; run by judge_peers.py where Otava is installed.

stdin: series of numbers, as JSON; stdout: the calls [run, 1 or -1] of each. Otava analyses a whole series, so it is given what
was known that night; a change point is called when it is first seen, and not again where it moves by a few runs.
"""

from __future__ import annotations

import json
import logging
import sys

from otava.series import AnalysisOptions, Metric, Series

LOOKS_BACK = 90  # runs; longer series take longer and give the same
NEAR = 5
SETTINGS = {
    "window_len": 30,
    "max_pvalue": 1e-4,
    "min_magnitude": 0.0,
}  # its defaults, 50 and 1e-3, alarm twice as often


def calls(values: list[float]) -> list[tuple[int, int]]:
    """The calls on one series."""
    options = AnalysisOptions()
    for name, value in SETTINGS.items():
        setattr(options, name, value)
    seen: list[int] = []
    found = []
    for night in range(10, len(values)):
        first = max(0, night + 1 - LOOKS_BACK)
        part = values[first : night + 1]
        series = Series("series", None, list(range(len(part))), {"m": Metric(1, 1.0, "")}, {"m": part}, {})
        for point in series.analyze(options).change_points["m"]:
            where = first + point.index
            if all(abs(where - other) > NEAR for other in seen):
                found.append((night, 1 if point.stats.mean_2 > point.stats.mean_1 else -1))
            seen.append(where)
    return found


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    json.dump([calls(values) for values in json.load(sys.stdin)], sys.stdout)
