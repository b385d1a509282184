"""A Prometheus that has the week of several farms, each with a job of its own, without having scraped any."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import farm_history
from farm_history import Farm
from prometheus_server import Prometheus, program

from virtual.ports import free_port


@contextlib.contextmanager
def prometheus_of(farms: Sequence[Farm], folder: Path) -> Iterator[Prometheus]:
    """The server; it keeps what it has."""
    data = folder / "data"
    for farm in farms:
        runtime = folder / farm.name
        runtime.mkdir(mode=0o700)
        text = runtime / "week.openmetrics"
        with text.open("w", encoding="utf-8") as output:
            output.writelines(f"{line}\n" for line in farm_history.openmetrics(farm, runtime))
            output.write("# EOF\n")
        words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data]
        subprocess.run(words, check=True, capture_output=True, timeout=300)
        text.unlink()
    (folder / "prometheus.yml").write_text("global: {}\n")
    address = f"127.0.0.1:{free_port()}"
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=1y"]
    options += [f"--query.lookback-delta={farm_history.STEP_S}s", f"--web.listen-address={address}"]
    with program(["prometheus", *options], f"http://{address}/-/ready", folder / "log"):
        yield Prometheus(f"http://{address}")
