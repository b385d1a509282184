"""A Prometheus that has the week of several farms, each with a job of its own, without having scraped any."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.virtual.ports import free_port
from support import farm_history
from support.farm_history import Farm
from support.prometheus_server import Prometheus, program


@contextlib.contextmanager
def _checked(words: Sequence[str | Path]) -> Iterator[None]:
    """A program that runs meanwhile, and has gone well at the end."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as started:
        yield
        said, _ = started.communicate(timeout=300)
        assert started.returncode == 0, said


@contextlib.contextmanager
def prometheus_of(farms: Sequence[Farm], folder: Path) -> Iterator[Prometheus]:
    """The server; it keeps what it has."""
    data = folder / "data"
    weeks = []
    for farm in farms:
        (folder / farm.name).mkdir(mode=0o700)
        weeks.append(farm_history.pages(farm, folder / farm.name))
    with contextlib.ExitStack() as running:
        for number, its in enumerate(
            zip(*weeks, strict=True)
        ):  # promtool reads a file again for every two hours of it
            text = folder / f"{number}.openmetrics"
            text.write_text("".join(f"{line}\n" for page in its for line in page) + "# EOF\n", encoding="utf-8")
            words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data]
            running.enter_context(_checked(words))
    (folder / "prometheus.yml").write_text("global: {}\n")
    address = f"127.0.0.1:{free_port()}"
    options = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=1y",
    ]
    options += [f"--query.lookback-delta={farm_history.STEP_S}s", f"--web.listen-address={address}"]
    with program(["prometheus", *options], f"http://{address}/-/ready", folder / "log"):
        yield Prometheus(f"http://{address}")
