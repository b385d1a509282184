"""`lab run --judge`: judging of a run, with remeasurement and diagnostic boots on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.farm import job_request
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.queue import confirms
from lab.jobs.records import Job
from lab.judge import summary, text
from lab.judge.boot_breakdown import explain, latest
from lab.judge.history import CONSTANTS
from lab.judge.records import UNSURE, StoredVerdict
from lab.judge.run_judge import judge_run
from lab.judge.store import read_verdicts, verdicts_with
from lab.judge.summary import OF_BOOTS
from lab.results import Store
from lab.run.options import BOOT, CONFIRMS

MOST_RERUNS: Final = CONSTANTS.most_reruns
Measure = Callable[[int], int | None]  # repeats a run's measurement; returns the new run, None: there is none


def judge_with_reruns(store: Store, run_id: int, measure: Measure, say: Callable[[str], None]) -> bool:
    """Judge a run, remeasure on request and report; False: worse for sure.

    Args:
        measure: repeats the measurement that the run with this id asked for.

    Raises:
        BoardlabError: the store cannot be used.
    """
    verdicts = judge_run(store, run_id)
    for number in range(1, MOST_RERUNS + 1):
        if not verdicts.asked:
            break
        items = ", ".join(sorted(" ".join(value for _, value in item) for item in verdicts.asked))
        numbers = _numbers(sum(verdict.asks for verdict in verdicts.judged))
        say(
            f"run {verdicts.run.id}: {numbers} of {items} may have moved; measuring again, {number} of at most "
            f"{MOST_RERUNS}"
        )
        again = measure(verdicts.run.id)
        if again is None:
            break
        verdicts = judge_run(store, again)
    return report(store, verdicts.run.id, say)


def report(store: Store, run_id: int, say: Callable[[str], None]) -> bool:
    """Report a run's stored verdicts; False: a number is worse for sure.

    Raises:
        BoardlabError: the store cannot be used.
    """
    verdicts = verdicts_with(store, run_id)
    moved = [verdict for verdict in verdicts if verdict.direction]
    for verdict in moved:
        say(f"verdict: {text.sentence(verdict)}")
    if not verdicts:
        say(f"not judged: run {run_id} ended before the judge had it; have it judged: lab judge run {run_id}")
    elif all(verdict.outcome in {summary.NO_SAMPLES, summary.NO_HISTORY} for verdict in verdicts):
        failed = sum(verdict.outcome == summary.NO_SAMPLES for verdict in verdicts)
        why = [f"has no samples of {_numbers(failed)}, since no cycle gave one above 0"] * bool(failed)
        why += [needs] if (needs := text.needs(verdicts)) else []
        say(f"not judged: run {run_id} {', and '.join(why)} (lab judge show {run_id})")
    elif unsure := count_unconfirmed(store, run_id):
        say(
            f"not judged: run {run_id} has {_numbers(unsure)} that may have moved, and no run that confirms it; "
            f"measure that: lab run --confirms {run_id} --env ENV"
        )
    elif not moved:
        compared = sum(verdict.outcome not in {summary.NO_HISTORY, summary.NO_SAMPLES} for verdict in verdicts)
        say(
            f"run {run_id}: {compared} of {len(verdicts)} numbers compared, none has moved for sure (lab judge show "
            f"{run_id})"
        )
    return not any(verdict.alarms for verdict in verdicts)


def count_unconfirmed(store: Store, run_id: int) -> int:
    """Count of a run's numbers that may have moved, and that no run confirms.

    A later run of the board leaves the question open: it may have other software.

    Raises:
        BoardlabError: the store cannot be used.
    """
    verdicts = read_verdicts(store, run_id=run_id, outcomes=[UNSURE])
    return sum(not (verdict.review or verdict.muted or verdict.over) for verdict in verdicts)


def find_unconfirmed_runs(store: Store, job: Job) -> tuple[int, ...]:
    """Runs that a job measured or confirms with numbers that may have moved.

    Raises:
        BoardlabError: the store cannot be used.
    """
    runs = [run.id for run in listing.view(store, job, utc_now()).runs if not confirms(store, run.id)]
    runs += [int(job.options[CONFIRMS])] if CONFIRMS in job.options else []
    return tuple(run for run in runs if count_unconfirmed(store, run))


def find_unknowns(store: Store, job: Job) -> tuple[str, ...]:
    """List why runs of a job are not known to be good.

    Returns:
        one text a run, with the run's number first.

    Raises:
        BoardlabError: the store cannot be used.
    """
    kinds = {job_request.kind(suite) for suite in job.suites}
    runs = [run.id for run in listing.view(store, job, utc_now()).runs if run.kind in kinds]
    unknowns = {run: summary.find_unknowns(store, run) for run in runs if not confirms(store, run)}
    return tuple(f"run {run}: {'; '.join(sentences)}" for run, sentences in unknowns.items() if sentences)


def asks_diagnosis(store: Store, run_id: int) -> bool:
    """Return whether diagnostic boots shall explain a run: its boot time is worse for sure, and it had none.

    So a verdict has them once, whatever they bring.
    """
    return (
        store.run(run_id).kind == BOOT
        and bool(_worse_boots(store, run_id))
        and latest(store, run_id) is None
        and store.run(run_id).status == "completed"
    )


def report_parts(store: Store, run_id: int, say: Callable[[str], None]) -> None:
    """Report the parts behind a run's regressions of boot times."""
    media: dict[int, set[str]] = {}
    for verdict in _worse_boots(store, run_id):
        media.setdefault(verdict.since_run or run_id, set()).add(verdict.params.get("medium", ""))
    lines = [line for since, media_of_run in media.items() for line in explain(store, run_id, since, media_of_run)]
    for line in lines:
        say(f"where: {line}")
    how = (
        "the parts"
        if lines
        else "no diagnosed run before the change, or no part differs for sure; the parts of this one"
    )
    say(f"{how}: lab results where {run_id}")


def _worse_boots(store: Store, run_id: int) -> list[StoredVerdict]:
    return [
        verdict for verdict in verdicts_with(store, run_id) if verdict.alarms and verdict.metric.startswith(OF_BOOTS)
    ]


def report_again(store: Store, job: Job, say: Callable[[str], None]) -> bool:
    """Report the verdicts of a job's runs that confirm no other.

    Raises:
        BoardlabError: the store cannot be used.
    """
    runs = [run.id for run in listing.view(store, job, utc_now()).runs]
    alarms = [run for run in runs if not confirms(store, run) and not report(store, run, say)]
    return not alarms


def alarms_again(store: Store, job: Job, say: Callable[[str], None]) -> bool:
    """Report regressions of a job's runs that this process has not reported.

    Its rerun was begun by a killed one.

    Raises:
        BoardlabError: the store cannot be used.
    """
    runs = [run.id for run in listing.view(store, job, utc_now()).runs]
    alarms = [
        verdict for run in runs if not confirms(store, run) for verdict in verdicts_with(store, run) if verdict.alarms
    ]
    for verdict in alarms:
        say(f"verdict: {text.sentence(verdict)}")
    return bool(alarms)


def _numbers(count: int) -> str:
    return "1 number" if count == 1 else f"{count} numbers"
