"""kill -9 of everything that measures, in the middle of a run that is resumed."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Final

import psutil

from lab import boards
from lab.boards import MomentPattern
from support.measuring_lab import Lab

SEED: Final = 20261120
DEADLINE_S: Final = 600
VICTIMS: Final = ("pytest", "console", "pdudaemon", "qemu")
_NAMES: Final = {"console": "lab.console.server", "pdudaemon": "pdudaemon", "qemu": "qemu-system"}


def wait_for_sample(lab: Lab, process: subprocess.Popen[bytes], count: int) -> subprocess.Popen[bytes]:
    """Wait until there are so many samples; a session that ended meanwhile is resumed, once per wait."""
    return _wait(lab, process, lambda: len(lab.samples()) >= count, f"no {count}. sample in time")


def kill(lab: Lab, victim: str, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Kill one of VICTIMS, as often as there is one of it; wait for it where it is not there at the moment."""
    if victim != "pytest":
        return _wait(lab, process, lambda: _killed(lab, _NAMES[victim]), f"no {victim} was there to be killed")
    process.kill()
    if process.wait() != -signal.SIGKILL:  # it had ended by itself: an earlier kill was too much for its retries
        process = lab.pytest("--lab-resume", "1")
        process.kill()
        assert process.wait() == -signal.SIGKILL, lab.log
    return process


def _killed(lab: Lab, name: str) -> bool:
    killed = 0
    for found in lab.processes(name):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.kill()
            killed += 1
    return killed > 0


def _wait(
    lab: Lab, process: subprocess.Popen[bytes], reached: Callable[[], bool], late: str
) -> subprocess.Popen[bytes]:
    deadline = time.monotonic() + DEADLINE_S
    resumed = False
    while not reached():
        if process.poll() is not None:
            assert not resumed, lab.log
            process, resumed = lab.pytest("--lab-resume", "1"), True
        assert time.monotonic() < deadline, f"{late}:\n{lab.log}"
        time.sleep(0.2)
    return process


def wait_for_moment(lab: Lab, process: subprocess.Popen[bytes], moment: MomentPattern) -> subprocess.Popen[bytes]:
    """Wait until the board says a moment's text once more."""
    text = moment.pattern.encode()
    before = len(lab.bench.truth().find(text))
    return _wait(lab, process, lambda: len(lab.bench.truth().find(text)) > before, f"{moment.name} did not come")


def assert_run_survives(lab: Lab, medium: str, cycles: int) -> None:
    """Measure, and kill each of VICTIMS as often as the cycles allow, each time at another moment of a boot; the run completes."""
    chance = random.Random(SEED)
    moments = [moment for moment in boards.load(lab.bench.board.type).moments if moment.name != "shell"]
    process = lab.pytest("--lab-medium", medium, "--lab-cycles", str(cycles))
    rounds = (cycles // 2 - 1) // len(VICTIMS)
    for number, victim in enumerate(VICTIMS * rounds, start=1):
        process = wait_for_sample(lab, process, 2 * number)
        process = wait_for_moment(lab, process, chance.choice(moments))
        process = kill(lab, victim, process)
    process = wait_for_sample(lab, process, cycles)
    assert process.wait(DEADLINE_S) == 0, lab.log


def assert_run_survives_a_kill(lab: Lab, cycles: int, moment: str) -> None:
    """Measure all media, and kill the session at a moment of a boot behind the first sample; what is resumed completes."""
    (at,) = (each for each in boards.load(lab.bench.board.type).moments if each.name == moment)
    process = lab.pytest("--lab-cycles", str(cycles))
    process = wait_for_sample(lab, process, 1)
    process = wait_for_moment(lab, process, at)
    kill(lab, "pytest", process)
    assert lab.pytest("--lab-resume", "1").wait(DEADLINE_S) == 0, lab.log
