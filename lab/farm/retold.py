"""What a job ended with, said once more: a queue that was killed in that moment asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.farm import blamed
from lab.farm.runner import INTERRUPTED, WORSE
from lab.jobs.records import Job
from lab.results import Store
from lab.run.options import JUDGE

_ENDS: Final = {"completed": 0, "cancelled": INTERRUPTED}


def told_again(store: Store, job: Job, say: Callable[[str], None]) -> int:
    """The exit code of a job that has ended, and its verdicts.

    Raises:
        BoardlabError: the store cannot be used.
    """
    from lab.farm import judging  # noqa: PLC0415 - numpy, which few jobs have a use for

    code = _ENDS.get(job.state, 1)
    if job.state == "failed":
        blamed.tell(store, job, say)
    well = judging.told_again(store, job, say) if job.options.get(JUDGE) else True
    return code if well or code else WORSE
