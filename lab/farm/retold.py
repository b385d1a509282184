"""What a job ended with, said once more: a queue that was killed in that moment asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.farm.runner import INTERRUPTED, WORSE
from lab.host.clock import utc_now
from lab.judge import words
from lab.results import Store, joblist
from lab.results.jobrecords import Job
from lab.results.verdicts import read_verdicts
from lab.run.options import JUDGE

_ENDS: Final = {"completed": 0, "cancelled": INTERRUPTED}


def told_again(store: Store, job: Job, say: Callable[[str], None]) -> int:
    """The exit code of a job that has ended, and its verdicts.

    Raises:
        BoardlabError: the store cannot be used.
    """
    code = _ENDS.get(job.state, 1)
    for run in joblist.view(store, job, utc_now()).runs if job.options.get(JUDGE) else ():
        verdicts = read_verdicts(store, run_id=run.id)
        for verdict in verdicts:
            if verdict.direction:
                say(f"verdict: {words.sentence(verdict)}")
        if code == 0 and any(verdict.alarms for verdict in verdicts):
            code = WORSE
    return code
