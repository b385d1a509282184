"""A host's exporter as a program, and labgrid's view of its serial port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.coordinator import DEADLINE_S, client
from support.prometheus_server import until

PLACE = "b1"
EXPORTER = "labhost"


@contextmanager
def running_exporter(
    coordinator: str, folder: Path, runtime: Path, exported: str, *words: str, within: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """`lab farm export` of these resources (YAML); `within`: the words of another program that starts it."""
    resources = folder / "exporter.yaml"
    resources.write_text(exported)
    command = [
        *within,
        Path(sys.executable).with_name("lab"),
        "farm",
        "export",
        str(resources),
        "--coordinator",
        coordinator,
    ]
    options = ["--name", EXPORTER, "--hostname", "127.0.0.1", "--runtime", str(runtime), *words]
    log = folder / "exporter.log"
    with log.open("wb") as said, subprocess.Popen([*command, *options], stdout=said, stderr=said) as process:
        try:
            until(lambda: b"Exporter ready" in log.read_bytes(), "the exporter is ready")
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_S)


def serial_port(device: Path) -> str:
    """What exports one serial port of one board."""
    return f"{PLACE}:\n  RawSerialPort: {{port: '{device}', speed: 115200}}\n"


def make_place(coordinator: str, name: str = PLACE) -> None:
    client(coordinator, "-p", name, "create")
    client(coordinator, "-p", name, "add-match", f"{EXPORTER}/{name}/*")


def shown(coordinator: str) -> str:
    """What labgrid-client says of the place."""
    done = subprocess.run(
        [Path(sys.executable).with_name("labgrid-client"), "-p", PLACE, "show"],
        env={**os.environ, "LG_COORDINATOR": coordinator},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return done.stdout


def tcp_port(coordinator: str) -> int:
    """Where a stock client finds the console; 0: nowhere now."""
    found = re.search(r"'port': (\d+)", shown(coordinator))
    return int(found[1]) if found else 0
