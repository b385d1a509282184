"""What a person, or a timer, does at each board in bench/chaos.py: begins runs, and resumes what was interrupted."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Literal

from attrs import define, field, frozen
from chaos_lab import LAB, ChaosLab

MEDIA = ("sd", "emmc", "ospi")
PAUSE_S = 1.0  # before a session that follows one that went wrong
Way = Literal["pytest", "lab run"]


@frozen
class Ended:
    """A session that ended: its command, and its exit status (negative: the signal)."""

    words: tuple[str, ...]
    status: int


@define
class Operator:
    """Measures one board, again and again, by `pytest` or by `lab run`.

    Attributes:
        done: every run is completed, and no further one shall begin.
        ended: the sessions so far.
    """

    lab: ChaosLab
    board: str
    way: Way
    chance: Random
    cycles: int
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    done: bool = field(default=False, init=False)
    ended: list[Ended] = field(factory=list, init=False)
    _words: tuple[str, ...] = field(default=(), init=False)
    _not_before_s: float = field(default=0.0, init=False)

    @property
    def log(self) -> Path:
        """What its sessions said."""
        return self.lab.home / f"{self.board}.log"

    def tend(self, *, closing: bool) -> None:
        """Start the next session when there is none; `closing`: only such as end what was begun."""
        if self.process is not None:
            status = self.process.poll()
            if status is None:
                return
            self.ended.append(Ended(self._words, status))
            self.process = None
            self._not_before_s = time.monotonic() + (PAUSE_S if status else 0.0)
        if self.done or self.lab.results.full or time.monotonic() < self._not_before_s:
            return  # a look into a store on a full disk may cost us our life (SIGBUS)
        words = self._next(closing=closing)
        if words is None:
            self.done = closing
            return
        self._words = words
        command = [LAB, "run"] if self.way == "lab run" else [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        self.process = self.lab.popen([*command, *words], self.log)

    def _next(self, *, closing: bool) -> tuple[str, ...] | None:
        env = str(self.lab.env(self.board))
        if self.way == "pytest":
            run = self._latest("SELECT id, status FROM runs WHERE board = ? ORDER BY id DESC LIMIT 1")
            words = ("--lg-env", env, "tests_perf/test_boot.py")
            if run is not None and run[1] != "completed":
                return (*words, "--lab-resume", str(run[0]))
            medium = self.chance.choice(MEDIA)
            return None if closing else (*words, "--lab-medium", medium, "--lab-cycles", str(self.cycles))
        job = self._latest("SELECT id, state FROM jobs WHERE board = ? ORDER BY id DESC LIMIT 1")
        if job is not None and job[1] == "failed":
            return ("--resume", f"j{job[0]}")
        if closing and (job is None or job[1] == "completed"):
            return None
        # As a timer does: a job that was killed is gone on with, else a new one begins.
        return ("--env", env, "--cycles", str(max(1, self.cycles // len(MEDIA))), "--continue")

    def _latest(self, query: str) -> tuple[Any, ...] | None:
        with looking(self.lab) as store:
            found: tuple[Any, ...] | None = store.execute(query, (self.board,)).fetchone()
            return found


@contextlib.contextmanager
def looking(lab: ChaosLab) -> Iterator[sqlite3.Connection]:
    """The store, read past boardlab's own code."""
    with contextlib.closing(sqlite3.connect(f"file:{lab.database}?mode=rw", uri=True, timeout=30)) as store:
        store.execute("PRAGMA query_only=ON")
        yield store
