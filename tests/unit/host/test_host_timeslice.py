"""A thread with a time slice of its own, and what it starts, which has the usual one."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from lab.host import scheduling

OWN_SLICE = (6, 12)  # the first Linux in which a thread may choose it
KERNEL = tuple(int(part) for part in platform.release().split(".")[:2])
TOLD = """
import json, os, subprocess, sys, threading
from lab.host import scheduling as timeslice

told = {"before": timeslice.slice_ns()}
os.nice(1)
timeslice.choose_slice(timeslice.SHORTEST_NS)
told["after"] = timeslice.slice_ns()
told["nice"] = os.getpriority(os.PRIO_PROCESS, 0)
thread = threading.Thread(target=lambda: told.update(thread=timeslice.slice_ns()))
thread.start()
thread.join()
child = [sys.executable, "-P", "-c", "import os; from lab.host import scheduling as timeslice; print(timeslice.slice_ns(), os.sched_getscheduler(0))"]
slice_ns, policy = subprocess.run(child, check=True, capture_output=True, text=True).stdout.split()
print(json.dumps({**told, "child": int(slice_ns), "policy": int(policy)}))
"""


def told() -> dict[str, int]:
    """What a process says of itself, its thread and its child."""
    found: dict[str, int] = json.loads(
        subprocess.run([sys.executable, "-P", "-c", TOLD], check=True, capture_output=True, text=True).stdout
    )
    return found


def test_what_a_thread_starts_has_the_usual_slice() -> None:
    said = told()
    assert said["after"] == (scheduling.SHORTEST_NS if KERNEL >= OWN_SLICE else said["before"])
    assert said["thread"] == said["child"] == said["before"]
    assert (said["policy"], said["nice"]) == (os.SCHED_OTHER, 1)


def test_a_processor_whose_calls_nobody_named_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "alpha")
    scheduling.choose_slice(scheduling.SHORTEST_NS)
    assert scheduling.slice_ns() == 0
