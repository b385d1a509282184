"""The session of pytest that measures a suite of a job: its command line, and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.farm import suites
from lab.host import locks
from lab.jobs.records import AWAY_VARIABLE, JOB_VARIABLE, Job
from lab.results.location import DATABASE_VARIABLE
from lab.run.options import CONFIRMS, JUDGE, pytest_words


def command(job: Job, tests: Path, suite: str, unfinished: int | None) -> list[str]:
    """What starts it.

    Args:
        tests: the folder with the suites. unfinished: the run to go on with, if the job has one of this suite.
    """
    # When `lab run` is killed, the kernel ends pytest as Ctrl-C would: board off, run resumable.
    # -P: as the program `pytest`, which takes no module from the folder that it is started in.
    words = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider"]
    # With `=`: pytest takes a path that stands alone for a folder of tests when it looks for its settings.
    words += [f"--lg-env={job.env}", *map(str, suites.files(tests, suite))]
    words += [f"--lab-confirms={job.options[CONFIRMS]}"] if CONFIRMS in job.options else []
    told = {name: value for name, value in job.options.items() if name != JUDGE}  # `lab run` judges, at the end
    words += pytest_words(told, suites.kind(suite), resumed=unfinished is not None)
    if unfinished is not None:
        return [*words, "--lab-resume", str(unfinished)]
    if job.release:
        words += ["--lab-release", job.release]
    if job.cycles is not None:
        words += ["--lab-cycles", str(job.cycles)]
    return words


def environment(
    job: Job, database: str | None, power_on_gap_s: float, as_user: Mapping[str, str], away_s: float = 0.0
) -> dict[str, str]:
    """With the database, whose URL may hold a password: every user can read a command line, and not this.

    Args:
        database: as `--db`, or None. power_on_gap_s: unless the environment has it; 0: none. as_user: who holds the labgrid place.
        away_s: how long it waits for a host that is away, before it measures.
    """
    own = {} if database is None else {DATABASE_VARIABLE: database}
    gap = {locks.GAP_VARIABLE: f"{power_on_gap_s:g}"} if power_on_gap_s else {}
    return {**gap, **os.environ, JOB_VARIABLE: job.called, AWAY_VARIABLE: f"{away_s:g}", **own, **as_user}
