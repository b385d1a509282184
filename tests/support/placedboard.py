"""A simulated board as a labgrid place of our exporter, whose host has another clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from coordinator import running_coordinator
from exported import make_place, running_exporter
from measuring_lab import Lab
from otherhost import console_server_with_another_clock, rails_server_beside

BOARD = "am62xx_sk-1"


def elsewhere(lab: Lab) -> tuple[str, str]:
    """The board's environment as that of a place, and what the exporter exports: its serial ports and its outlet."""
    env = yaml.safe_load((lab.bench.folder / BOARD / "env.yaml").read_text())
    main = env["targets"]["main"]
    exported = {}
    kept = [{"RemotePlace": {"name": BOARD}}]
    for resource in main["resources"]:
        ((cls, arguments),) = resource.items()
        name = arguments.get("name", cls)
        if cls == "RailSensors":
            arguments["at"] = "console"
        if cls in {"PDUDaemonPort", "RawSerialPort"}:
            exported[name] = {"cls": cls, **{key: value for key, value in arguments.items() if key != "name"}}
        else:
            kept.append(resource)
    main["resources"] = kept
    return yaml.safe_dump(env), yaml.safe_dump({BOARD: exported})


@contextmanager
def running_place(lab: Lab, folder: Path) -> Iterator[tuple[Path, str]]:
    """The environment of the place, and its coordinator; nobody has acquired it."""
    env, exported = elsewhere(lab)
    (folder / "place.yaml").write_text(env)
    with (
        running_coordinator(folder) as coordinator,
        console_server_with_another_clock(lab.folder / "host") as console,
        rails_server_beside(console),
        running_exporter(coordinator, folder, lab.folder / "host", exported),
    ):
        make_place(coordinator, BOARD)
        yield folder / "place.yaml", coordinator
