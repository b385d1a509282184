"""Write the dashboards as JSON, for Grafana to read as files.

    uv run --group grafana python farm/grafana/build.py

The files are committed; a test holds that they are what this writes.
"""

from __future__ import annotations

import json
from pathlib import Path

from boardlab_dashboards import benchmarks, board, boot, health, overview, power
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

FOLDER = Path(__file__).parent / "dashboards"
WIDTH = 24  # of Grafana's grid


def texts() -> dict[str, str]:
    """File name -> JSON."""
    made = [module.build().build() for module in (overview, board, boot, power, benchmarks, health)]
    for one in made:
        _arrange(one)
    return {f"{one.uid}.json": json.dumps(one, cls=JSONEncoder, indent=1, sort_keys=True) + "\n" for one in made}


def _arrange(made: Dashboard) -> None:
    """Number the panels for links, and place them from left to right."""
    x = y = line = 0
    for number, panel in enumerate(made.panels or [], start=1):
        if not isinstance(panel, Panel) or panel.grid_pos is None:
            continue
        if x + panel.grid_pos.w > WIDTH:
            x, y, line = 0, y + line, 0
        panel.id_val, panel.grid_pos.x, panel.grid_pos.y = number, x, y
        x, line = x + panel.grid_pos.w, max(line, panel.grid_pos.h)


def main() -> None:
    """Write them."""
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
