"""Draw the documents' picture of a dashboard, over a farm of 64 boards that is made up.

PYTHONPATH=.:tests/support python tools/dashboard_pictures.py
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import dashboards
import farm_history
import grafana_farm
import grafana_queries
import grafana_renderer
from farm_history import Farm

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
PICTURES: Final = {"boardlab-overview": "farm-overview"}  # dashboard -> file
WIDTH: Final = 1400


def main() -> None:
    """Draw."""
    now = float(int(time.time()) // farm_history.STEP_S * farm_history.STEP_S)
    farm = Farm("boardlab", 64, True, now)
    every = list(dashboards.ALL.values())
    with tempfile.TemporaryDirectory() as name, grafana_farm.prometheus_of((farm,), Path(name)) as server:
        view = grafana_queries.View(server.url, now, scrape_s=farm_history.STEP_S)
        jobs = [
            grafana_renderer.Job(grafana_queries.drawing(dashboards.ALL[uid], view, {}, every), file, WIDTH)
            for uid, file in PICTURES.items()
        ]
        grafana_renderer.draw(jobs, Path(name))
        for file in PICTURES.values():
            shutil.copy(Path(name) / f"{file}.png", IMAGES / f"{file}.png")


if __name__ == "__main__":
    main()
