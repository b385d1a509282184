"""A virtual board and a pytest session that measures it, in a folder of their own, as a user would run them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest
from attrs import define, field

from lab.console.client import ConsoleClient
from lab.errors import LabTransientError
from lab.host.runtime import socket_path
from lab.results import StoredSample, open_store
from support.virtual_bench import BenchProcess, running_bench

ROOT = Path(__file__).parents[2]
END_S = 30
ENOUGH = 20  # numbers, of which some may be outside
OUTSIDE = 0.05  # of what a busy host measured may be: a ± holds for most numbers, not for every one
STALL_S = 0.05  # as far as a host that stands still puts one of them


def measuring_pytest(bench: Path) -> list[str]:
    """The command of a session that measures on a bench in this folder."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--lg-env", str(bench / "env.yaml")]


@define
class Lab:
    """One virtual board with everything around it in a folder of its own."""

    folder: Path
    bench: BenchProcess
    environ: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.environ = {
            **os.environ,
            "BOARDLAB_RUNTIME": str(self.folder / "runtime"),
            "LAB_DB": f"sqlite:///{self.folder / 'results.db'}",
        }

    def pytest(self, *arguments: str, measures: str = "test_boot.py") -> subprocess.Popen[bytes]:
        command = measuring_pytest(self.folder / "bench")
        with (self.folder / "pytest.log").open("ab") as log:
            return subprocess.Popen(
                [*command, f"tests_perf/{measures}", "--lab-retries", "5", *arguments],
                env=self.environ,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def passes(self, folder: Path, *words: str | Path, timeout_s: float) -> None:
        """Run pytest with these words in a folder of its own tests; they pass."""
        done = self.runs(folder, *words, timeout_s=timeout_s)
        assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr

    def runs(self, folder: Path, *words: str | Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run pytest with these words in a folder."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    @property
    def log(self) -> str:
        """What the sessions printed so far."""
        return (self.folder / "pytest.log").read_text()

    def samples(self, metric: str = "boot.time") -> list[StoredSample]:
        with open_store(self.environ["LAB_DB"]) as store:
            runs = store.runs()
            return store.samples(runs[0].id, metric=metric) if runs else []

    def processes(self, name: str) -> list[psutil.Process]:
        """Processes of this lab: their command line or environment names its folder."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())  # a zombie has none
            except psutil.Error:
                continue
            if str(self.folder) in words and name in words:
                found.append(process)
        return found


@contextlib.contextmanager
def running_lab(folder: Path, *words: str) -> Iterator[Lab]:
    """A lab; at the end nothing of it may be left running. `words` go to `lab virtual up`."""
    try:
        with running_bench(folder / "bench", *words) as bench:
            lab = Lab(folder, bench)
            yield lab
    finally:  # the console server outlives a session that failed, and would read the next pty of that number
        with contextlib.suppress(LabTransientError), ConsoleClient(socket_path(folder / "runtime")) as client:
            client.stop()
    _, left = psutil.wait_procs(lab.processes(""), timeout=END_S)
    left = [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert left == [], "something was left running"


Number = tuple[float, float, float]  # value, its ± and the truth, in seconds


def assert_true(found: Iterable[Number], more: Callable[[], Iterable[Number]] | None = None) -> None:
    """Measured on a real clock: every value is within its ± of the truth; of ENOUGH numbers one in twenty need not be.

    A busy host holds up one now and then. Whether it was that, or something is wrong, a few numbers cannot tell.

    Args:
        more: measures more of them, where one of a few is outside.
    """
    numbers = list(found)
    assert numbers
    while (out := _outside(numbers)) and len(numbers) < ENOUGH and more is not None:
        numbers += more()
    allowed = OUTSIDE * len(numbers) if len(numbers) >= ENOUGH else 0
    assert len(out) <= allowed, out
    assert all(abs(value - truth) <= about + STALL_S for value, about, truth in out), out


def _outside(numbers: Iterable[Number]) -> list[Number]:
    return [(value, about, truth) for value, about, truth in numbers if abs(value - truth) > about]
