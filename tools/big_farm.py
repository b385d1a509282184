"""A lab's folder for many boards on several hosts: farm.yaml, and an environment per board, which names its labgrid place.

    uv run python tools/big_farm.py DIR [--boards 100] [--hosts 5] [--type am62xx_sk]

Every value that is a real lab's own (addresses, programs, times) stands at the top of the farm.yaml that it writes. Schedules are spread:
each board is measured every night, the boards of a hub one after the other, and all of the guide once a week.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any, Final

import yaml

PER_HUB: Final = 10  # boards on a hub: one of them is written at a time
PER_MINUTE: Final = 4  # nightly runs that come due in the same minute
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ENV: Final = """\
targets:
  main:
    resources:
      - RemotePlace: {{name: {place}}}
    drivers:
      - StampedPDUDaemonDriver: {{}}
      - StampedConsoleDriver: {{}}
      - BoardStrategy: {{board: {board}, board_type: {kind}}}
options:
  coordinator_address: '{coordinator}'
imports: [lab.drivers, lab.strategies]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--boards", type=int, default=100)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--type", default="am62xx_sk", help="of all boards")
    parser.add_argument("--program", default="/srv/boardlab/.venv/bin/lab")
    options = parser.parse_args()
    farm = described(options.folder.absolute(), options.boards, options.hosts, options.program)
    write(options.folder, farm, options.type)


def described(folder: Path, boards: int, hosts: int, program: str) -> dict[str, Any]:
    """farm.yaml."""
    names = [f"lab-{number}" for number in range(1, hosts + 1)]
    entries: list[dict[str, str]] = []
    schedules: list[dict[str, object]] = []
    for number in range(boards):
        board, host = f"sk-{number + 1:03}", names[number * hosts // boards]
        its = sum(entry["host"] == host for entry in entries)
        entries.append({"name": board, "env": f"{board}.yaml", "host": host, "hub": f"{host}-hub{its // PER_HUB + 1}"})
        minutes = number // PER_MINUTE
        night = {"name": f"night-{board}", "env": f"{board}.yaml", "board": board}
        schedules.append({**night, "at": f"{2 + minutes // 60:02}:{minutes % 60:02}"})
        week = {"name": f"week-{board}", "env": f"{board}.yaml", "board": board, "suite": "guide", "every": "week"}
        schedules.append({**week, "day": DAYS[number % len(DAYS)], "at": "05:00"})
    return {
        "directory": str(folder),
        "program": program,
        "database": "postgresql://lab@10.0.0.1/lab?passfile=/var/lib/boardlab/pgpass",
        "artifacts": "s3://lab/artifacts",
        "coordinator": "10.0.0.1:20408",
        "health": {"reference": entries[0]["name"], "at": "01:30"},
        "limits": {"power_on_gap": 0.5, "max_boards": 32, "late_ms": 5},
        "buildbot": {"program": "/srv/boardlab/.cache/buildbot/bin/buildbot", "parallel": 32},
        "hosts": [{"name": name} for name in names],
        "boards": entries,
        "schedules": schedules,
    }


def write(folder: Path, farm: dict[str, Any], kind: str) -> None:
    """All files; those that are there are written anew."""
    (folder / "envs").mkdir(parents=True, exist_ok=True)
    for entry in farm["boards"]:
        text = ENV.format(place=entry["name"], board=entry["name"], kind=kind, coordinator=farm["coordinator"])
        (folder / "envs" / entry["env"]).write_text(text, encoding="utf-8")
    plain = {key: value for key, value in farm.items() if not isinstance(value, list)}
    lists = {key: value for key, value in farm.items() if isinstance(value, list)}
    text = yaml.safe_dump(plain, sort_keys=False, width=1000)
    for key, entries in lists.items():
        text += f"{key}:\n" + textwrap.indent("\n".join(f"- {json.dumps(entry)}" for entry in entries), "  ") + "\n"
    (folder / "farm.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
