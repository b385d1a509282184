"""Make the documents' pictures, each from what really ran: python tools/pictures.py [PICTURE...], e.g. on-call.png

PYTHONPATH=.:tests/support python tools/pictures.py     # all of them; some minutes

The overview of a farm is drawn over 64 boards that are made up; the start pages' pictures show what their steps give, typed
as they stand there; the README's is the report of `./run demo`, and is made together with the numbers beside it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import grafana_queries
import grafana_renderer
import page_looks
import readme_demo
from support import dashboards, farm_history, grafana_farm, start_pages
from support.farm_history import Farm

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 900, 1080  # of the window, in px
DASHBOARD_WIDTH: Final = 1400


def dashboard(uid: str, picture: Path) -> None:
    """A dashboard over 64 boards."""
    now = float(int(time.time()) // farm_history.STEP_S * farm_history.STEP_S)
    farm = Farm("boardlab", 64, True, now)
    with tempfile.TemporaryDirectory() as name, grafana_farm.prometheus_of((farm,), Path(name)) as server:
        view = grafana_queries.View(server.url, now, scrape_s=farm_history.STEP_S)
        drawing = grafana_queries.drawing(dashboards.ALL[uid], view, {}, list(dashboards.ALL.values()))
        grafana_renderer.draw([grafana_renderer.Job(drawing, picture.stem, DASHBOARD_WIDTH)], Path(name))
        shutil.copy(Path(name) / f"{picture.stem}.png", picture)


def start_page(name: str, run: int, part: str, picture: Path) -> None:
    """The report that a start page's steps write.

    Args:
        run: its number. part: of the report, e.g. "#cycles"; empty: it is seen from the top.
    """
    with tempfile.TemporaryDirectory() as folder:
        start_pages.follow(name, Path(folder))
        page = f"/boardlab-run-{run}.html{part}"
        page_looks.look([page_looks.Look(Path(folder) / start_pages.LAB, page, WIDTH, HEIGHT, picture=str(picture))])


MAKERS: Final[dict[str, Callable[[Path], None]]] = {
    "farm-overview.png": partial(dashboard, "boardlab-overview"),
    "report.png": readme_demo.renew,
    "lab-engineer.png": partial(start_page, "lab-engineer", 1, ""),
    "release-manager.png": partial(start_page, "release-manager", 2, ""),
    "on-call.png": partial(start_page, "on-call", 1, "#cycles"),
}


def main() -> None:
    """Make those that are named, or all."""
    for name in sys.argv[1:] or MAKERS:
        if name not in MAKERS:
            sys.exit(f"{name}: no such picture; there are {', '.join(MAKERS)}")
        MAKERS[name](IMAGES / name)


if __name__ == "__main__":
    main()
