"""The summary of a run's verdicts, as text, HTML or Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from attrs import define, evolve, frozen

from lab.errors import ConfigurationError, LabStableError
from lab.judge import baseline
from lab.judge.boot_breakdown import explain
from lab.judge.latest import WorseNumber, still_worse, worse_of_run
from lab.judge.records import CALLED, OUTCOMES, UNSURE, ChangeStart, StoredVerdict
from lab.judge.store import verdicts_with
from lab.judge.text import EvidenceLinks, VerdictChange, changes, needs
from lab.results.completeness import completeness_of_runs, planned_items
from lab.results.formatting import label
from lab.results.history import item_of, read_numbers
from lab.results.records import Run
from lab.results.snapshot import StoreSnapshot
from lab.results.store import Store
from lab.terminal import environment, plain

Form = Literal["txt", "html", "md"]
FORMS: Final[Mapping[str, Form]] = {".txt": "txt", ".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}
_UNCHANGED: Final = "unchanged"
NO_HISTORY: Final = "no history"
NO_SAMPLES: Final = "no samples"
_NAMED: Final = 3  # most numbers that a sentence names
OF_BOOTS: Final = "boot."  # prefix of the metrics of boots
_NO_SAMPLES: Final = "not measured, since no cycle gave a sample above 0"
_UNSURE: Final = "unsure: a rerun is asked for"
_WEIGHTS: Final = ("regression", _NO_SAMPLES, _UNSURE, "environment", "improvement")  # order of a headline's parts
_WORDS: Final = {"none": _UNCHANGED, NO_SAMPLES: _NO_SAMPLES, UNSURE: _UNSURE}  # outcome -> its words in a summary


@frozen
class VerdictSummary:
    """The summary of a run's verdicts.

    Attributes:
        changes: changes that are not muted.
        muted: number of muted changes.
        others: words for another outcome -> number of verdicts.
        needs: history that numbers lack, e.g. "needs 8 earlier runs, has 5"; empty: none lacks any.
        failed: number of failed cycles of a run without a good one; 0: the run has good ones.
        worse: changes that the run still shows, and numbers worse than in the runs before (`lab.judge.latest`).
        gaps: sentences on what the run lacks (`find_gaps`).
    """

    run: Run
    changes: tuple[VerdictChange, ...]
    muted: int
    others: Mapping[str, int]
    needs: str = ""
    failed: int = 0
    worse: tuple[WorseNumber, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The headline; the most important part comes first."""
        counts = Counter[str]()
        for change in self.changes:
            counts.update(verdict.outcome for verdict in change.verdicts)
        counts[_UNSURE] = self.others.get(_UNSURE, 0)
        counts[_NO_SAMPLES] = 0 if self.failed else self.others.get(_NO_SAMPLES, 0)
        sentences = [all_failed(self.failed)] if self.failed else []
        sentences += self.gaps
        sentences += [
            f"{outcome}: {counts[outcome]} number{'s' * (counts[outcome] > 1)}"
            for outcome in _WEIGHTS
            if counts[outcome]
        ]
        if worse := [number for number in self.worse if number.since is not None or not sentences]:
            sentences.append(still_worse(worse, self.needs))
        unchanged, uncompared = self.others.get(_UNCHANGED, 0), self.others.get(NO_HISTORY, 0)
        if uncompared and (unchanged or self.changes or self.muted):
            sentences.append(f"{uncompared} of {sum(self.others.values()) + counts.total()} numbers not compared")
            sentences += [f"{unchanged} unchanged"] * bool(unchanged)
        if self.muted:
            sentences.append(f"{self.muted} muted number{'s' * (self.muted > 1)} moved")
        if sentences:
            text = "; ".join(sentences)
        elif unchanged:
            text = "Nothing moved"
        else:
            text = f"Nothing could be compared: {self.needs}" if self.needs else "Nothing was judged"
        run = f"run {self.run.id}, {plain(self.run.board)}, release {plain(self.run.release)}"
        return f"{text[0].upper()}{text[1:]} ({run})"

    @property
    def rest(self) -> str:
        """The counts of all verdicts that are not in `changes`."""
        parts = [f"{count} {words}" for words, count in self.others.items()]
        if self.muted:
            parts.append(f"{self.muted} moved and muted")
        return ", ".join(parts)


def of_run(store: Store, run_id: int) -> VerdictSummary:
    """Return the summary of a judged run.

    Raises:
        ConfigurationError: there is no such run.
    """
    verdicts = verdicts_with(store, run_id)
    runs = [store.run(number) for number in {verdict.since_run for verdict in verdicts} if number is not None]
    began = {run.id: ChangeStart(run.id, run.started_at, run.release) for run in runs}
    run_summary = summary(store.run(run_id), verdicts, began, count_failed_cycles(store, run_id))
    diagnosed = tuple(evolve(change, parts=parts(store, change)) for change in run_summary.changes)
    with store.snapshot() as snapshot:
        gaps = find_gaps(snapshot, run_id)
    return evolve(run_summary, changes=diagnosed, worse=worse_of_run(store, run_id, verdicts), gaps=gaps)


def find_gaps(snapshot: StoreSnapshot, run_id: int) -> tuple[str, ...]:
    """Return sentences on what a run lacks: cycles of its plan, and numbers that earlier runs with its plan had.

    Raises:
        ConfigurationError: there is no such run.
    """
    judged = baseline.judge_run(snapshot, run_id)
    kind, shortage = judged.head.kind, completeness_of_runs(snapshot, [judged.head])[run_id].shortage
    gaps = [f"not complete: {shortage}"] if shortage else []
    plans = snapshot.plans([run_id, *sorted({average.run_id for average in judged.missing})])
    items = {planned_run: planned_items(kind, plan).keys() for planned_run, plan in plans}
    # Numbers of a run that planned more items are not missing here.
    missing = [average for average in judged.missing if items[average.run_id] <= items[run_id]]
    names = [f"{average.metric.name} {label(average.params)}".strip() for average in missing]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        gaps.append(f"not measured, but in run {missing[0].run_id}: {', '.join(names[:_NAMED])}{more}")
    return tuple(gaps)


def find_unknowns(store: Store, run_id: int) -> tuple[str, ...]:
    """Sentences on why a run without a regression is not known to be good; empty: it is.

    It lacks what it was to measure, it was not judged, none of its numbers could be compared, or one without a history
    is worse than in the runs before.

    Raises:
        ConfigurationError: no such run.
    """
    verdicts = verdicts_with(store, run_id)
    with store.snapshot() as snapshot:
        sentences = [*find_gaps(snapshot, run_id)]
    uncompared = {(verdict.metric, item_of(verdict.params)) for verdict in verdicts if verdict.outcome == NO_HISTORY}
    if not verdicts:
        sentences += [f"not judged: lab judge run {run_id}"] * bool(store.measurements(run_id))
    elif all(verdict.outcome in {NO_HISTORY, NO_SAMPLES} for verdict in verdicts):
        sentences.append(f"not judged: {needs(verdicts) or 'no number has a sample above 0'}")
    worse = [
        number
        for number in worse_of_run(store, run_id, verdicts)
        if number.since is None and (number.metric, item_of(number.params)) in uncompared
    ]
    return (*sentences, *([still_worse(worse)] if worse else []))


def parts(store: Store, change: VerdictChange) -> tuple[str, ...]:
    """Return the parts of the boot that explain a change of boot times, if its runs were diagnosed."""
    media = {verdict.params.get("medium", "") for verdict in change.verdicts if verdict.metric.startswith(OF_BOOTS)}
    last = max(verdict.run.id for verdict in change.verdicts)
    return tuple(explain(store, last, change.began.run, media)) if media else ()


def count_failed_cycles(store: Store, run_id: int) -> int:
    """Return the number of failed cycles of a run without a good one; else 0."""
    (run,) = read_numbers(store, [run_id])
    return 0 if run.numbers else sum(run.failed.values())


def summary(
    run: Run, verdicts: Iterable[StoredVerdict], began: Mapping[int, ChangeStart], failed: int = 0
) -> VerdictSummary:
    """Summarise the verdicts on a run.

    Args:
        verdicts: all verdicts on this run, and those on earlier runs that were found with it.
        began: run id -> first run of a change.
        failed: number of failed cycles, if none was good.
    """
    every = list(verdicts)
    called = [verdict for verdict in every if verdict.outcome in CALLED]
    unmuted = [verdict for verdict in called if verdict.muted is None]
    counts = Counter(verdict.outcome for verdict in every)
    others = {_WORDS.get(name, name): counts[name] for name in OUTCOMES if counts[name] and name not in CALLED}
    return VerdictSummary(
        run, tuple(changes(unmuted, began)), len(called) - len(unmuted), others, needs(every), failed
    )


def render(summary: VerdictSummary, form: Form, evidence: EvidenceLinks) -> str:
    """Return the summary as a document; its first line, in HTML the heading, is the headline."""
    templates = environment("lab.judge", escapes=form == "html")
    return templates.get_template(f"summary.{form}.j2").render(summary=summary, evidence=evidence)


def form_of(path: Path) -> Form:
    """Return the format that a file's extension stands for.

    Raises:
        ConfigurationError: the extension is unknown.
    """
    if path.suffix.lower() not in FORMS:
        raise ConfigurationError(f"{path}: its extension names no format; use .md, .html or .txt")
    return FORMS[path.suffix.lower()]


def write(summary: VerdictSummary, path: Path, evidence: EvidenceLinks) -> None:
    """Write the summary in the format of the file's name.

    Raises:
        BoardlabError: the extension is unknown, or the file cannot be written.
    """
    text = render(summary, form_of(path), evidence)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabStableError(f"cannot write {path}: {error.strerror}; choose another file") from error


def all_failed(cycles: int) -> str:
    """Return the sentence on a run without a good cycle, which may have ended before it tried its whole plan."""
    return "the only cycle that was tried failed" if cycles == 1 else f"all {cycles} cycles that were tried failed"


@define
class Month:
    """The verdicts on the runs of a month.

    Attributes:
        month: e.g. 2026-11, in UTC.
        runs: number of judged runs.
        numbers: number of verdicts.
        regressions, improvements, environment, unsure: number of verdicts with that outcome.
        reruns: number of runs that confirmed others; those of one night count once.
        rejected, accepted: number of changes on runs with that decision.
    """

    month: str
    runs: int = 0
    numbers: int = 0
    regressions: int = 0
    improvements: int = 0
    environment: int = 0
    unsure: int = 0
    reruns: int = 0
    rejected: int = 0
    accepted: int = 0


def by_month(verdicts: Sequence[StoredVerdict]) -> list[Month]:
    """Return the months with verdicts, the oldest first."""
    months: dict[str, Month] = {}
    reruns_of: dict[int, int] = {}  # run id -> most reruns of a verdict so far
    for verdict in sorted(verdicts, key=lambda verdict: (verdict.run.started_at, verdict.run.id)):
        key = f"{verdict.run.started_at:%Y-%m}"
        month = months.setdefault(key, Month(key))
        earlier = reruns_of.get(verdict.run.id)
        month.runs += earlier is None
        month.reruns += max(0, verdict.reruns - (earlier or 0))
        reruns_of[verdict.run.id] = max(verdict.reruns, earlier or 0)
        month.numbers += 1
        month.regressions += verdict.outcome == "regression"
        month.improvements += verdict.outcome == "improvement"
        month.environment += verdict.outcome == "environment"
        month.unsure += verdict.outcome == UNSURE
        if verdict.review is not None and verdict.direction:
            month.rejected += verdict.review.decision == "rejected"
            month.accepted += verdict.review.decision == "accepted"
    return list(months.values())
