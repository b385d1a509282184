"""A lab's folder for many boards on several hosts: farm.yaml, an environment per board, what each host exports, and the boards' places.

    uv run python tools/big_farm.py DIR [--boards 100] [--hosts 5] [--type am62xx_sk] [--bench DIR]

| What | Is |
|---|---|
| farm.yaml | for all hosts; every value that is a real lab's own (addresses, programs, times) stands at its top |
| envs/BOARD.yaml | the board's environment, which names its labgrid place |
| exports/HOST.yaml | for HOST, as /etc/boardlab/exports.yaml: a group for each of its boards, with adapter and outlet |
| places.sh | makes the places, with match and tags, once the coordinator runs; what is there stays |

Schedules are spread: each board is measured every night, the boards of a hub one after the other, and all of the guide once a week. With --bench,
boards of `lab farm up` or `lab virtual up sim` stand for the real ones: their ports and outlets are exported.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any, Final

import yaml

from lab import package_data

EXPORTS: Final = "/etc/boardlab/exports.yaml"  # on every host, of this host
PDUDAEMON: Final = "127.0.0.1:16421"  # of every host
PER_HUB: Final = 10  # boards on a hub: one of them is written at a time
PER_MINUTE: Final = 4  # nightly runs that come due in the same minute
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PLACES: Final = """\
#!/bin/sh
# Makes the boards' places at the coordinator. What is there stays as it is.
set -eu
export LG_COORDINATOR="${{LG_COORDINATOR:-{coordinator}}}"
known=$(labgrid-client places)

place() {{    # PLACE HOST TAG...
    name=$1 host=$2
    shift 2
    if echo "$known" | grep -qx "$name *"; then return; fi
    labgrid-client -p "$name" create
    labgrid-client -p "$name" add-match "$host/$name/*"
    labgrid-client -p "$name" set-tags "$@"
    echo "$name on $host: $*"
}}

{lines}
"""
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
imports: [lab.drivers, STRATEGY]
""".replace("STRATEGY", str(package_data.strategy_file()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--boards", type=int, default=100)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--type", default="am62xx_sk", help="of all boards")
    parser.add_argument("--program", default="/srv/boardlab/.venv/bin/lab")
    parser.add_argument("--coordinator", default="10.0.0.1:20408", metavar="HOST:PORT")
    parser.add_argument(
        "--database", default="postgresql://lab@10.0.0.1/lab?passfile=/var/lib/boardlab/pgpass", metavar="URL"
    )
    parser.add_argument("--bench", type=Path, metavar="DIR", help="of simulated boards, whose ports are exported")
    options = parser.parse_args()
    farm = described(options.folder.absolute(), options.boards, options.hosts, options.program)
    farm |= {"coordinator": options.coordinator, "database": options.database}
    write(options.folder, farm, options.type, options.bench)


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
        "exports": EXPORTS,
        "ssh_config": "/etc/boardlab/ssh/config",
        "health": {"reference": entries[0]["name"], "at": "01:30"},
        "limits": {"power_on_gap": 0.5, "max_boards": 32, "late_ms": 5},
        "buildbot": {"program": "/srv/boardlab/.cache/buildbot/bin/buildbot", "parallel": 32},
        "hosts": [{"name": name} for name in names],
        "boards": entries,
        "schedules": schedules,
    }


def write(folder: Path, farm: dict[str, Any], kind: str, bench: Path | None = None) -> None:
    """All files; those that are there are written anew.

    Args:
        bench: of simulated boards that stand for the real ones.
    """
    for name in ("envs", "exports"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for entry in farm["boards"]:
        text = ENV.format(place=entry["name"], board=entry["name"], kind=kind, coordinator=farm["coordinator"])
        (folder / "envs" / entry["env"]).write_text(text, encoding="utf-8")
    groups = _simulated(farm["boards"], bench) if bench else _groups(farm["boards"])
    for host in farm["hosts"]:
        its = {entry["name"]: groups[entry["name"]] for entry in farm["boards"] if entry["host"] == host["name"]}
        (folder / "exports" / f"{host['name']}.yaml").write_text(
            yaml.safe_dump(its, sort_keys=False), encoding="utf-8"
        )
    lines = "\n".join(
        f"place {each['name']} {each['host']} board={each['name']} type={kind}" for each in farm["boards"]
    )
    (folder / "places.sh").write_text(PLACES.format(coordinator=farm["coordinator"], lines=lines), encoding="utf-8")
    plain = {key: value for key, value in farm.items() if not isinstance(value, list)}
    lists = {key: value for key, value in farm.items() if isinstance(value, list)}
    text = yaml.safe_dump(plain, sort_keys=False, width=1000)
    for key, entries in lists.items():
        text += f"{key}:\n" + textwrap.indent("\n".join(f"- {json.dumps(entry)}" for entry in entries), "  ") + "\n"
    (folder / "farm.yaml").write_text(text, encoding="utf-8")


def _groups(boards: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Board -> what its host exports of it. Its sockets are invented: `lab farm discover` prints the real ones."""
    found: dict[str, dict[str, Any]] = {}
    on_hub: dict[str, int] = {}
    outlets: dict[str, int] = {}
    for board in boards:
        hub, host = board["hub"], board["host"]
        on_hub[hub] = on_hub.get(hub, 0) + 1
        outlets[host] = outlets.get(host, 0) + 1
        socket = f"pci-0000:00:14.0-usb-0:{hub.rpartition('hub')[2]}.{on_hub[hub]}"
        match = {"@ID_PATH": socket, "ID_USB_INTERFACE_NUM": "00"}
        found[board["name"]] = {
            "console": {"cls": "USBSerialPort", "match": match, "speed": 115200},
            "power": {"cls": "PDUDaemonPort", "host": PDUDAEMON, "pdu": "rack", "index": outlets[host]},
        }
    return found


def _simulated(boards: list[dict[str, str]], bench: Path) -> dict[str, dict[str, Any]]:
    """The same of the boards of a bench, in their order."""
    folders = sorted(path.parent for path in bench.absolute().glob("*/env.yaml"))
    if len(folders) < len(boards):
        raise SystemExit(
            f"{bench}: {len(folders)} simulated boards, and {len(boards)} are wanted: --boards {len(folders)}"
        )
    found = {}
    for board, folder in zip(boards, folders, strict=False):
        resources = yaml.safe_load((folder / "env.yaml").read_text(encoding="utf-8"))["targets"]["main"]["resources"]
        (outlet,) = [each["PDUDaemonPort"] for each in resources if "PDUDaemonPort" in each]
        found[board["name"]] = {
            "console": {"cls": "RawSerialPort", "port": str(folder / "main0"), "speed": 115200},
            "power": {"cls": "PDUDaemonPort", **outlet},
        }
    return found


if __name__ == "__main__":
    main()
