"""Parts that several measurements share: cores, processor time, children that play, the table."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

BENCH = Path(__file__).resolve().parent
LAB = Path(sys.executable).with_name("lab")
_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))  # of version 2, and of version 1
_GROUP = "boardlab-bench"
MISSED = 3  # exit code: an aim is missed
BUSY = "the machine has other work; absolute times mean little then"

sys.path[1:1] = [str(BENCH.parent / "tests"), str(BENCH.parent / "tools")]  # for `support` and the browser of tools


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the program's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print the table as Markdown, and the machine's load."""
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |")
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)


def spread(errors_ms: Sequence[float], percentiles: Sequence[float]) -> list[str]:
    """Percentiles and the largest, as cells."""
    import numpy as np  # noqa: PLC0415 - not in the memory that guides.py measures

    if not len(errors_ms):
        return ["-"] * (len(percentiles) + 1)
    return [f"{value:.3f}" for value in (*np.percentile(errors_ms, percentiles), max(errors_ms, key=abs))]


def share(good: int, of: int) -> str:
    """A share as a cell."""
    return f"{good / of:.2%}" if of else "-"


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has taken, by the scheduler's own accounting."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def peak_mb(pid: int) -> float:
    """The most memory that a process has had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


@frozen
class Core:
    """The core of processes that stand for hardware.

    Attributes:
        busy: the machine has other work, beside which an idle group would never run: they get the lowest real-time priority instead, and
            the kernel's workers wait for them.
    """

    number: int
    busy: bool


def prepare(*, busy: bool) -> Core:
    """Keep this program and its children off the hardware's core; return that core."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # grabserial ends by it; background shells ignore it
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {core} or {core})
    return Core(core, busy)


def stand_aside(core: Core, pid: int) -> None:
    """Keep a process that stands for hardware to one core.

    Its priority there is below all others, such as the kernel's tty worker.

    SCHED_IDLE alone is below the other processes of the same session (autogroup) or control group, but not below the
    kernel's workers, which are in none (sched(7)). So the process gets a control group of its own, directly below the
    root, that is idle as a whole (cpu.idle in Documentation/admin-guide/cgroup-v2.rst).
    """
    os.sched_setaffinity(pid, {core.number})
    if core.busy:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        return
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    try:
        (_idle_group() / "cgroup.procs").write_text(str(pid), encoding="ascii")
    except OSError as error:
        print(f"pid {pid} takes time from the kernel's workers on its core: {error}", file=sys.stderr)


def _idle_group() -> Path:
    for hierarchy in _HIERARCHIES:
        if not (hierarchy / "cgroup.procs").exists():
            continue
        group = hierarchy / _GROUP
        if not group.exists():
            group.mkdir()
            atexit.register(_remove, group)
        if (group / "cpu.idle").exists():
            (group / "cpu.idle").write_text("1", encoding="ascii")
            return group
    raise FileNotFoundError("no control group here has cpu.idle; it needs Linux 5.15 and the cpu controller")


def _remove(group: Path) -> None:
    with contextlib.suppress(OSError):  # a process is still in it
        group.rmdir()


@contextmanager
def player(core: Core, *words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A started program that stands for hardware, on its core."""
    with subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"{words[0]} did not start"
        stand_aside(core, process.pid)
        yield process


def go(process: subprocess.Popen[str]) -> Callable[[], bool]:
    """Let a player begin; returns a function: whether it has not printed "done"."""
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout
    process.stdin.write("go\n")
    process.stdin.flush()
    os.set_blocking(output.fileno(), False)
    return lambda: not output.readline()
