"""Whose fault it is that a job failed, in a line that a queue reads: a fault of the lab is nobody's commit's."""

from __future__ import annotations

from collections.abc import Callable

from lab.health.state import RELEASES
from lab.jobs.queue import lab_faults
from lab.jobs.records import Job
from lab.results import Store

BY_THE_LAB = "failed by the lab: "  # as farm/buildbot/boardlab_measure.py reads it


def tell(store: Store, job: Job, say: Callable[[str], None]) -> None:
    """Say it, where a job has failed and all that it lacks is the lab's fault, in which no release has a part.

    Raises:
        BoardlabError: the store cannot be read.
    """
    faults = lab_faults(store, job.id)
    if faults and RELEASES.isdisjoint(faults):
        say(f"{BY_THE_LAB}{', '.join(faults)} (lab jobs show {job.called})")
