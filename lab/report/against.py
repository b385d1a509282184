"""What became of a run's numbers: the judge's words on each, arranged for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from lab.errors import ConfigurationError
from lab.judge.baseline import JudgedNumber, JudgedRun, earlier, judge, judge_run, place
from lab.judge.labels import same_release
from lab.judge.verdicts import Verdict
from lab.metrics.catalogue import BOOT_STAGE
from lab.report.names import Names
from lab.report.rowstrip import RowStrip, row_strip
from lab.report.waterfall import StageKey
from lab.results.formatting import fixed, with_uncertainty
from lab.results.listing import STAGE
from lab.results.records import LAST_ID
from lab.results.series import Place, run_head, runs_at
from lab.results.snapshot import StoreSnapshot

_ORDER = list(Verdict)
_BAD = {Verdict.REGRESSION, Verdict.BROKEN_RUN}
NOT_MEASURED: Final = "not measured"
UNCHANGED: Final = "unchanged"
UNCOMPARED: Final = "with nothing to compare"
WORDS: Final = ("worse", "better", UNCOMPARED, UNCHANGED, "not comparable", NOT_MEASURED)
_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


@frozen
class JudgedRow:
    """One number against what it is compared with.

    Attributes:
        metric: its name, under which the page of a run has it. change: with its interval at 95 %; empty where there is nothing to compare with. bad: it needs a person.
        strip: it beside the numbers of the runs that it is compared with; None where there are none.
    """

    metric: str
    title: str
    before: str
    now: str
    change: str
    verdict: str
    reason: str
    bad: bool
    strip: RowStrip | None = None


@frozen
class Comparison:
    """The verdict on a run.

    Attributes:
        line: in one sentence. counts: the same by word, e.g. "worse". rows: the numbers that are not as they were.
        told: the numbers of the rows, in their order.
        new: titles of those that there is nothing to compare with, where others have something.
        missing: titles of those that were there before and are not now.
        state: "bad" where a number needs a person, "good" where all are as they were, "plain" where there is no history.
    """

    against: str
    line: str
    counts: Mapping[str, int]
    rows: tuple[JudgedRow, ...]
    told: tuple[JudgedNumber, ...]
    new: tuple[str, ...]
    missing: tuple[str, ...]
    state: str


def judged(snapshot: StoreSnapshot, run_id: int, against: str | None) -> JudgedRun:
    """The judge's words on every number of a run.

    Args:
        against: a release or a run's number; a release that its board was measured with comes before a run of that number. None: the
            last runs that nobody rejected.

    Raises:
        ConfigurationError: no such run, or it measured something else or another board.
    """
    head = run_head(snapshot, run_id)
    if against is None or not against.isdecimal() or head is None:
        return judge_run(snapshot, run_id, against)  # which says where there is no such run
    runs = runs_at(snapshot, Place.of(head))
    if any(each.id != head.id and same_release(each.release, against) for each in place(runs, head)):
        return judge_run(snapshot, run_id, against)
    other = run_head(snapshot, int(against)) if int(against) <= LAST_ID else None
    if other is None or other.id == head.id:
        raise ConfigurationError(f"--against {against}: no other run {against}; `lab results list` shows the runs")
    if (other.kind, other.board_type) != (head.kind, head.board_type):
        raise ConfigurationError(
            f"--against {against}: run {other.id} is {other.kind} of {other.board_type}, run {head.id} is {head.kind} of "
            f"{head.board_type}; name a run of the same kind and board type"
        )
    before = earlier(runs, head, snapshot.decisions())
    name = f"run {other.id}, release {other.release}" + (
        f", on board {other.board}" if other.board != head.board else ""
    )
    return judge(snapshot, head, before, [other], name)


def moved_stages(judged: JudgedRun) -> dict[StageKey, str]:
    """The stages that got "worse" or "better"."""
    words = {Verdict.REGRESSION: "worse", Verdict.IMPROVEMENT: "better"}
    return {
        StageKey(each.average.params.get("medium", ""), each.average.params[STAGE]): words[each.judgement.verdict]
        for each in judged.numbers
        if each.average.metric.name == BOOT_STAGE.name and each.judgement.verdict in words
    }


def last_of(judged: JudgedRun) -> int | None:
    """The last run that the numbers were compared with; None where there was none."""
    return max((run for each in judged.numbers if each.baseline for run in each.baseline.runs), default=None)


def comparison(judged: JudgedRun, names: Names) -> Comparison:
    """The numbers, what needs a person first; stages are in the figure, and count as much as the others."""
    numbers = sorted(judged.numbers, key=lambda each: (_ORDER.index(each.judgement.verdict), each.average.metric.name))
    counts = Counter(each.judgement.verdict for each in numbers)
    same = counts[Verdict.NOISE] + counts[Verdict.BELOW_RESOLUTION]
    told = tuple(
        each
        for each in numbers
        if each.judgement.verdict not in {Verdict.NOISE, Verdict.BELOW_RESOLUTION, Verdict.NO_HISTORY}
        and (each.judgement.verdict.moved or each.average.metric.name != BOOT_STAGE.name)
    )
    new = [each.average for each in numbers if each.judgement.verdict is Verdict.NO_HISTORY]
    said = _said(counts, same) | ({NOT_MEASURED: len(judged.missing)} if judged.missing else {})
    return Comparison(
        against=judged.against,
        line=line(said),
        counts=said,
        rows=tuple(_row(each, names) for each in told),
        told=told,
        new=()
        if len(new) == len(numbers)
        else tuple(names.number(a.metric, a.params) for a in new if a.metric.name != BOOT_STAGE.name),
        missing=tuple(names.number(each.metric, each.params) for each in judged.missing),
        state=_state(counts, whole=not judged.missing),
    )


def line(counts: Mapping[str, int]) -> str:
    """Numbers by word as a sentence, always in the same order, e.g. `2 worse, 96 unchanged, 3 not measured`."""
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts.get(word)) or "no numbers"


def _state(counts: Counter[Verdict], *, whole: bool) -> str:
    found = set(counts)
    if found & _BAD:
        return "bad"
    if found == {Verdict.NO_HISTORY}:
        return "plain"
    return "good" if found <= _SAME and whole else ""


def _said(counts: Counter[Verdict], same: int) -> dict[str, int]:
    """How many numbers are what, in a reader's words."""
    words = {
        Verdict.REGRESSION: "worse",
        Verdict.IMPROVEMENT: "better",
        Verdict.NO_HISTORY: UNCOMPARED,
    }
    found = {word: counts[verdict] for verdict, word in words.items()}
    found[UNCHANGED] = same
    found["not comparable"] = sum(counts.values()) - sum(found.values())
    return {word: count for word, count in found.items() if count}


def _row(each: JudgedNumber, names: Names) -> JudgedRow:
    average, judgement = each.average, each.judgement
    change = ""
    if judgement.effect is not None:
        change = f"{_percent(judgement.effect)}"
        if judgement.low is not None and judgement.high is not None:
            change += f" ({_percent(judgement.low)} to {_percent(judgement.high)})"
    return JudgedRow(
        metric=average.metric.name,
        title=names.number(average.metric, average.params),
        before=""
        if each.baseline is None
        else with_uncertainty(each.baseline.value, each.baseline.uncertainty, average.metric),
        now=with_uncertainty(average.value, average.uncertainty, average.metric),
        change=change,
        verdict=str(judgement.verdict),
        reason=judgement.reason,
        bad=judgement.verdict in _BAD,
        strip=row_strip(each),
    )


def _percent(share: float) -> str:
    text = fixed(100 * share, 1 if abs(share) < 0.1 else 0)
    return f"{text if text.startswith('-') or not float(text) else f'+{text}'} %"
