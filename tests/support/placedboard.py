"""A virtual board as a labgrid place of our exporter, whose host has another clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.coordinator import running_coordinator
from support.exported import make_place, running_exporter
from support.measuring_lab import Lab
from support.otherhost import console_server_with_another_clock, rails_server_beside

BOARD = "am62xx_sk-1"


def elsewhere(path: Path, board: str) -> tuple[str, str]:
    """A board's environment as that of a place, and what the exporter exports: its serial ports and its outlet."""
    env = yaml.safe_load(path.read_text())
    main = env["targets"]["main"]
    exported = {}
    kept = [{"RemotePlace": {"name": board}}]
    listed = main["resources"]
    for resource in [{name: each} for name, each in listed.items()] if isinstance(listed, dict) else listed:
        ((cls, arguments),) = resource.items()
        name = arguments.get("name", cls)
        if cls == "RailSensors":
            arguments["at"] = "console"
        if cls in {"PDUDaemonPort", "RawSerialPort"}:
            exported[name] = {"cls": cls, **{key: value for key, value in arguments.items() if key != "name"}}
        else:
            kept.append(resource)
    main["resources"] = kept
    return yaml.safe_dump(env), yaml.safe_dump({board: exported})


@contextmanager
def running_place(
    lab: Lab, folder: Path, board: str = BOARD, before: Path | None = None
) -> Iterator[tuple[Path, str]]:
    """The environment of the place, and its coordinator; nobody has acquired it.

    Args:
        board: its name, which the place has, too. before: its environment on its own host; None: the bench's.
    """
    env, exported = elsewhere(before or lab.bench.folder / board / "env.yaml", board)
    (folder / "place.yaml").write_text(env)
    with (
        running_coordinator(folder) as coordinator,
        console_server_with_another_clock(lab.folder / "host") as console,
        rails_server_beside(console),
        running_exporter(coordinator, folder, lab.folder / "host", exported),
    ):
        make_place(coordinator, board)
        yield folder / "place.yaml", coordinator
