"""A rails server as a program, and a sensor of the kernel's that it can read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.rails import RailConfig, RailsConfig
from lab.rails.server import rails_socket
from support.prometheus_server import until

DEADLINE_S = 60.0


def hwmon(folder: Path) -> RailsConfig:
    """A sensor that reads 0.85 V and 0.2 A."""
    device = folder / "hwmon0"
    device.mkdir()
    for name, text in {"name": "ina226", "in1_input": "850", "label": "vdd_core", "curr1_input": "200"}.items():
        (device / name).write_text(f"{text}\n")
    return RailsConfig("b1", "hwmon", str(folder), (RailConfig("vdd_core", 0.85),))


@contextmanager
def running_rails_server(runtime: Path, temporary: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`lab rails serve`; `temporary`: where it keeps its traces."""
    command = [Path(sys.executable).with_name("lab"), "rails", "serve", "--runtime", str(runtime)]
    environ = {**os.environ, **({"TMPDIR": str(temporary)} if temporary else {})}
    with subprocess.Popen(command, env=environ) as process:
        try:
            until(rails_socket(runtime).is_socket, "the rails server listens")
            yield process
        finally:
            process.terminate()
            process.wait(DEADLINE_S)
