"""The data of the page's template, from a run's records."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.figures.strips import CycleSeries, CycleStrip, FailedCycle, RowStrip, cycle_strip, row_strip
from lab.judge.baseline import JudgedNumber, JudgedRun, earlier, judge, judge_run, place
from lab.judge.compare import Verdict
from lab.judge.labels import same_release
from lab.metrics import Flag, Measurement, Metric, summarise
from lab.metrics.catalogue import BOOT_STAGE
from lab.metrics.drift import drift
from lab.metrics.limits import LimitOutcome
from lab.report.names import Names, title_of
from lab.results.artifacts import ArtifactStore
from lab.results.formatting import (
    LogLine,
    anchor,
    average_cell,
    console_log,
    format_fixed,
    limit_checks,
    lines,
    number,
    window,
    with_uncertainty,
)
from lab.results.listing import Overview, attempts_of, name_of, sample_count
from lab.results.records import CONSOLE_LOG, HOST_BUSY, LAST_ID, Attempt, Run
from lab.results.series import BoardSeries, decisions_at, run_head, runs_at
from lab.results.snapshot import StoreSnapshot
from lab.terminal import plain

LIMIT: Final = 12_000  # characters a log; 60 cycles stay under a megabyte
_LONGEST_LINE: Final = 400


@frozen
class LogGap:
    """Lines that were left out."""

    lines: int


def excerpt(lines: Sequence[LogLine], limit: int = LIMIT) -> list[LogLine | LogGap]:
    """An excerpt of a log of about `limit` characters.

    Kept are the lines nearest to its moments and to its two ends.
    """
    anchors = [i for i, line in enumerate(lines) if line.moments or i in {0, len(lines) - 1}]
    nearest = sorted(range(len(lines)), key=lambda i: min(abs(i - anchor) for anchor in anchors))
    indices: set[int] = set()
    for i in nearest:
        limit -= min(len(lines[i].text), _LONGEST_LINE)
        if limit < 0 and indices:
            break
        indices.add(i)
    pieces: list[LogLine | LogGap] = []
    after = 0
    for i in [*sorted(indices), len(lines)]:
        if i > after:
            pieces.append(LogGap(i - after))
        if i < len(lines):
            line, length = lines[i], len(lines[i].text)
            if length > _LONGEST_LINE:
                text = f"{line.text[:_LONGEST_LINE]} … ({length} characters)"
                line = LogLine(line.start, text, line.moments)
            pieces.append(line)
        after = i + 1
    return pieces


_MEDIUM: Final = "medium"
_MOST_TILES: Final = 8
_TAIL_BYTES: Final = 8192  # of the log of an attempt without numbers


@frozen
class SummaryRow:
    """A number in a table.

    Attributes:
        group: the anchor of its cycles, or of its log where it has only one (`single`).
    """

    title: str
    group: str
    average: str
    cell: str
    n: str
    uncertainty: str
    median: str
    p95: str
    std: str
    flags: tuple[str, ...]
    single: bool


@frozen
class MetricTable:
    """The numbers of one metric."""

    metric: Metric
    rows: tuple[SummaryRow, ...]

    @property
    def title(self) -> str:
        """The metric's name for a reader."""
        return title_of(self.metric)

    @property
    def single(self) -> bool:
        """True if no row has a spread."""
        return all(row.single for row in self.rows)

    @property
    def unit(self) -> str:
        """The unit in a word."""
        return {"s": "seconds", "ms": "milliseconds", "mW": "milliwatts"}.get(self.metric.unit, self.metric.unit)


@frozen
class AttemptEntry:
    """One attempt with its evidence.

    Attributes:
        value: the run's first number of this attempt; empty where it failed.
        message: what failed.
        numbers: name, value and bytes of the log of each of its numbers.
        log: the excerpt of its console log; empty where `problem` says why.
    """

    attempt: Attempt
    medium: str
    value: str
    message: str
    flags: tuple[str, ...]
    numbers: tuple[tuple[str, str, str], ...]
    log: list[LogLine | LogGap]
    problem: str

    @property
    def ok(self) -> bool:
        """True if it gave its samples."""
        return self.attempt.ok

    @property
    def link(self) -> str:
        """The id of the entry inside its fold."""
        return link(self.attempt)

    @property
    def busy(self) -> str:
        """The host's usage in per cent; empty where it is unknown."""
        busy = host_busy(self.attempt)
        return "" if busy is None else f"{100 * busy:.0f}"

    def since_first_s(self, t_ns: int) -> float:
        """Seconds from the attempt's first moment."""
        return (t_ns - self.attempt.moments[0].t_ns) / 1e9


@frozen
class AttemptGroup:
    """The attempts of one medium."""

    anchor: str
    title: str
    entries: tuple[AttemptEntry, ...]


def tables(run: Overview, names: Names) -> list[MetricTable]:
    """The run's numbers, one table a metric."""
    return [MetricTable(metric, tuple(_row(run, m, names) for m in group)) for metric, group in run.numbers.items()]


@frozen
class LimitRow:
    """A limit of a number, and its outcome: "pass", "marginal" or "fail"."""

    metric: str
    title: str
    of: str
    value: str
    limit: str
    outcome: str


def limits(run: Overview, names: Names) -> list[LimitRow]:
    """The limits of the run's numbers, broken ones first."""
    severity = list(LimitOutcome)
    return [
        LimitRow(
            m.metric.name,
            names.number(m.metric, m.params),
            limit_check.limit.of,
            limit_check.number(m.metric),
            limit_check.limit.text(m.metric),
            str(limit_check.outcome),
        )
        for m, limit_check in sorted(limit_checks(run), key=lambda pair: -severity.index(pair[1].outcome))
    ]


def failure_rates(run: Overview, names: Names) -> list[tuple[str, str]]:
    """How often the board failed: title, and the share with its interval."""
    return [(names.of(dict(key)), rate.text()) for key, rate in run.failure_rates.items()]


def tiles(run: Overview, names: Names) -> list[SummaryRow]:
    """The first numbers as tiles; none where there are too many."""
    first = first_numbers(run)
    return [_row(run, m, names) for m in first] if len(first) <= _MOST_TILES else []


def first_numbers(run: Overview) -> list[Measurement]:
    """The numbers of the run's first metric.

    Where it has a mode in its name, those of the other modes stand beside it.
    """
    kind = next(iter(run.numbers)).name.rpartition(".")[2] if run.numbers else ""
    return [m for metric, group in run.numbers.items() if metric.name.rpartition(".")[2] == kind for m in group]


def cycles(run: Overview, names: Names, before: Overview | None = None) -> CycleStrip | None:
    """The first numbers, cycle by cycle; None without a pair.

    Args:
        before: another run, whose averages are drawn, too.
    """
    averages = {
        (m.metric, frozenset(m.params.items())): summarise(m.samples).mean
        for m in (before.measurements if before else ())
    }
    all_series = []
    for m in first_numbers(run):
        tries = attempts_of(run.attempts, m)
        good = {attempt.cycle: attempt for attempt in tries if attempt.ok}
        series = CycleSeries(
            names.of(m.params),
            m.metric,
            m.samples,
            summarise(m.samples),
            {cycle: link(attempt) for cycle, attempt in good.items()},
            [FailedCycle(attempt.cycle, attempt.outcome, link(attempt)) for attempt in tries if not attempt.ok],
            averages.get((m.metric, frozenset(m.params.items()))),
            {cycle: busy for cycle, attempt in good.items() if (busy := host_busy(attempt)) is not None},
        )
        all_series.append(series)
    if all(series.summary.n < 2 for series in all_series):
        return None
    return cycle_strip(all_series, shared=run.run.kind == "boot")


def drifts(run: Overview, names: Names) -> list[str]:
    """A sentence for each first number that moved, with the host's usage."""
    sentences = []
    for m in first_numbers(run):
        moved = drift(m.samples)
        if moved is None:
            continue
        about = summarise(m.samples).uncertainty
        before, after = number(moved.before, about, m.metric), number(moved.after, about, m.metric)
        text = (
            f"{names.of(m.params)}: from cycle {moved.cycle} on the median is {after} {m.metric.unit}, before it was "
            f"{before} ({100 * moved.ratio:+.1f} %). The average above mixes both."
        )
        shares_before, shares_after = list[float](), list[float]()
        for attempt in attempts_of(run.attempts, m):
            share = host_busy(attempt)
            if attempt.ok and share is not None:
                (shares_after if attempt.cycle >= moved.cycle else shares_before).append(share)
        if shares_before and shares_after:
            busy_before, busy_after = (100 * statistics.median(shares) for shares in (shares_before, shares_after))
            text += f" The host was {busy_before:.0f} % busy before, and {busy_after:.0f} % after."
        sentences.append(text)
    return sentences


def link(attempt: Attempt) -> str:
    """The id of an attempt's entry, inside its fold.

    A browser opens the fold on the way there.
    """
    return f"log-{attempt.id}"


def host_busy(attempt: Attempt) -> float | None:
    """The host's processor usage during an attempt, 0 to 1, or None."""
    busy = attempt.details.get(HOST_BUSY)
    return float(busy) if isinstance(busy, (int, float)) else None


def groups(run: Overview, artifacts: ArtifactStore, names: Names) -> list[AttemptGroup]:
    """Every attempt with its evidence, by medium, in the order of cycles."""
    by_anchor: dict[str, list[Attempt]] = {}
    for attempt in run.attempts:
        by_anchor.setdefault(anchor(attempt.params), []).append(attempt)
    return [
        AttemptGroup(
            name,
            names.of(attempts[0].params),
            tuple(_entry(run, a, artifacts, names) for a in sorted(attempts, key=lambda a: (a.cycle, a.number))),
        )
        for name, attempts in by_anchor.items()
    ]


@frozen
class FailureSummary:
    """A class of failed attempts, with the last one's message and place."""

    outcome: str
    fault: str
    count: int
    message: str
    link: str


def failure_causes(groups: Iterable[AttemptGroup]) -> list[FailureSummary]:
    """The classes of failed attempts, the most frequent first."""
    by_class: dict[str, list[AttemptEntry]] = {}
    for group in groups:
        for entry in group.entries:
            if not entry.ok:
                by_class.setdefault(entry.attempt.outcome, []).append(entry)
    causes = [
        FailureSummary(name, entries[-1].attempt.fault or "", len(entries), entries[-1].message, entries[-1].link)
        for name, entries in by_class.items()
    ]
    return sorted(causes, key=lambda cause: -cause.count)


@frozen
class EqualFailures:
    """Attempts of one medium that failed with the same message."""

    medium: str
    outcome: str
    fault: str
    transient: bool
    message: str
    entries: tuple[AttemptEntry, ...]


def failures(groups: Iterable[AttemptGroup]) -> list[EqualFailures]:
    """The failed attempts by medium and message, the first first."""
    equal: dict[tuple[str, str, str, bool, str], list[AttemptEntry]] = {}
    for group in groups:
        for entry in group.entries:
            if not entry.ok:
                attempt = entry.attempt
                key = (entry.medium, attempt.outcome, attempt.fault or "", bool(attempt.transient), entry.message)
                equal.setdefault(key, []).append(entry)
    return [EqualFailures(*key, tuple(entries)) for key, entries in equal.items()]


def facts(run: Overview) -> list[tuple[str, str]]:
    """Plan, software and provenance, a nested key as `outer.inner`."""
    return [*_flat("plan", run.run.plan), *_flat("software", run.software), *provenance(run.run)]


def provenance(run: Run) -> list[tuple[str, str]]:
    """A run's provenance, a nested key as `outer.inner`."""
    return [fact for name, value in run.provenance.items() for fact in _flat(name, value)]


def _row(run: Overview, m: Measurement, names: Names) -> SummaryRow:
    s = summarise(m.samples)
    attempts = attempts_of(run.attempts, m)
    good = [a for a in attempts if a.ok]
    values = (number(value, s.uncertainty, m.metric) for value in (s.uncertainty, s.median, s.p95, s.std))
    uncertainty, median, p95, std = values
    return SummaryRow(
        title=names.of(m.params),
        group=link(good[0]) if s.n == 1 and len(good) == 1 else anchor(attempts[0].params),
        average=with_uncertainty(s.mean, s.uncertainty, m.metric),
        cell=average_cell(s, m.metric),
        n=sample_count(m, attempts),
        uncertainty=uncertainty,
        median=median,
        p95=p95,
        std=std,
        flags=_flags(m.flags),
        single=s.n == 1,
    )


def _entry(run: Overview, attempt: Attempt, artifacts: ArtifactStore, names: Names) -> AttemptEntry:
    metrics = {m.metric.name: m.metric for m in run.measurements}
    numbers = tuple(
        (
            name_of(s),
            with_uncertainty(s.value, s.uncertainty, metrics[s.metric]),
            "" if s.log_start is None else f"{s.log_start}–{s.log_end}",
        )
        for s in attempt.samples
    )
    log, problem = _log(attempt, artifacts)
    return AttemptEntry(
        attempt=attempt,
        medium=names.of(attempt.params),
        value=numbers[0][1] if numbers else "",
        message=plain(attempt.message),
        flags=_flags(frozenset().union(*(s.flags for s in attempt.samples)) - {Flag.SIMULATED}),
        numbers=numbers,
        log=log,
        problem=problem,
    )


def _log(attempt: Attempt, artifacts: ArtifactStore) -> tuple[list[LogLine | LogGap], str]:
    if attempt.artifact(CONSOLE_LOG) is None:
        return [], "No console log was kept."
    try:
        data = console_log(artifacts, attempt)
    except BoardlabError as error:
        return [], str(error)
    start, end = window(attempt) or (max(0, len(data) - _TAIL_BYTES), len(data))
    return excerpt(lines(data, start, end, attempt.moments)), ""


def _flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Flags for a reader."""
    return tuple(sorted(flag.replace("_", " ") for flag in flags))


def _flat(key: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [fact for inner, item in value.items() for fact in _flat(f"{key}.{inner}", item)]
    if isinstance(value, (list, tuple)):
        return [(key, ", ".join(str(item) for item in value))]
    return [(key, str(value))]


_ORDER = list(Verdict)
_BAD = {Verdict.REGRESSION, Verdict.BROKEN_RUN}
NOT_MEASURED: Final = "not measured"
UNCHANGED: Final = "unchanged"
UNCOMPARED: Final = "with nothing to compare"
WORDS: Final = ("worse", NOT_MEASURED, "not comparable", "better", UNCOMPARED, UNCHANGED)  # in the order of a sentence
_SAME = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}


@frozen
class JudgedRow:
    """One number against what it is compared with.

    Attributes:
        metric: its name, under which the page of a run has it.
        change: with its interval at 95 %; empty where there is nothing to compare with.
        bad: it needs a person.
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
class ComparisonView:
    """The verdict on a run.

    Attributes:
        line: in one sentence.
        counts: the same by word, e.g. "worse".
        rows: the numbers that are not as they were.
        reported: the numbers of the rows, in their order.
        moved: what got worse, a line for each number of all media, e.g. `User space: +0.48 s (+11 %) on SD, +0.41 s
            (+10 %) on eMMC`.
        new: titles of those that there is nothing to compare with, where others have something.
        missing: titles of those that were there before and are not now.
        state: "bad" where a number needs a person, "good" where all are as they were, "plain" where there is no
            history.
    """

    against: str
    line: str
    counts: Mapping[str, int]
    rows: tuple[JudgedRow, ...]
    reported: tuple[JudgedNumber, ...]
    new: tuple[str, ...]
    missing: tuple[str, ...]
    state: str
    moved: tuple[str, ...] = ()


def judge_against(snapshot: StoreSnapshot, run_id: int, against: str | None) -> JudgedRun:
    """The verdict on every number of a run.

    Args:
        against: a release or a run's number; a release that its board was measured with comes before a run of that
            number. None: the last runs that nobody rejected.

    Raises:
        ConfigurationError: no such run, or it measured something else or another board.
    """
    head = run_head(snapshot, run_id)
    if against is None or not against.isdecimal() or head is None:
        return judge_run(snapshot, run_id, against)  # which says where there is no such run
    runs = runs_at(snapshot, BoardSeries.of(head))
    if any(run.id != head.id and same_release(run.release, against) for run in place(runs, head)):
        return judge_run(snapshot, run_id, against)
    other = run_head(snapshot, int(against)) if int(against) <= LAST_ID else None
    if other is None or other.id == head.id:
        raise ConfigurationError(f"--against {against}: no other run {against}; `lab results list` shows the runs")
    if (other.kind, other.board_type) != (head.kind, head.board_type):
        raise ConfigurationError(
            f"--against {against}: run {other.id} is {other.kind} of {other.board_type}, run {head.id} is {head.kind} "
            f"of {head.board_type}; name a run of the same kind and board type"
        )
    before = earlier(runs, head, decisions_at(snapshot, BoardSeries.of(head)))
    name = f"run {other.id}, release {other.release}" + (
        f", on board {other.board}" if other.board != head.board else ""
    )
    return judge(snapshot, head, before, [other], name)


def last_of(judged: JudgedRun) -> int | None:
    """The last run of the baselines, or None."""
    return max((run for n in judged.numbers if n.baseline for run in n.baseline.runs), default=None)


def comparison(judged: JudgedRun, names: Names) -> ComparisonView:
    """The verdict for the page, the bad numbers first.

    Stages are in the figure, and count as much as the others.
    """
    numbers = sorted(
        judged.numbers,
        key=lambda n: (
            _ORDER.index(n.judgement.verdict),
            n.average.metric.name == BOOT_STAGE.name,
            n.average.metric.name,
        ),
    )
    counts = Counter(n.judgement.verdict for n in numbers)
    same = counts[Verdict.NOISE] + counts[Verdict.BELOW_RESOLUTION]
    reported = tuple(
        n
        for n in numbers
        if n.judgement.verdict not in {Verdict.NOISE, Verdict.BELOW_RESOLUTION, Verdict.NO_HISTORY}
        and (n.judgement.verdict.moved or n.average.metric.name != BOOT_STAGE.name)
    )
    new = [n.average for n in numbers if n.judgement.verdict is Verdict.NO_HISTORY]
    by_word = _by_word(counts, same) | ({NOT_MEASURED: len(judged.missing)} if judged.missing else {})
    return ComparisonView(
        against=judged.base,
        line=line(by_word),
        counts=by_word,
        rows=tuple(_comparison_row(n, names) for n in reported),
        reported=reported,
        new=()
        if len(new) == len(numbers)
        else tuple(names.number(a.metric, a.params) for a in new if a.metric.name != BOOT_STAGE.name),
        missing=tuple(names.number(average.metric, average.params) for average in judged.missing),
        state=_state(counts, whole=not judged.missing),
        moved=_worse_lines([n for n in reported if n.judgement.verdict is Verdict.REGRESSION], names),
    )


def _worse_lines(worse: Sequence[JudgedNumber], names: Names) -> tuple[str, ...]:
    """A line for each worse number, with all media where it moved; stages come last, what moved most first."""
    groups: dict[str, list[JudgedNumber]] = {}
    for judged_number in worse:
        params = {name: value for name, value in judged_number.average.params.items() if name != _MEDIUM}
        groups.setdefault(names.number(judged_number.average.metric, params), []).append(judged_number)

    def rank(group: tuple[str, list[JudgedNumber]]) -> tuple[bool, float]:
        is_stage = group[1][0].average.metric.name == BOOT_STAGE.name
        return is_stage, -max(abs(n.judgement.effect or 0.0) for n in group[1])

    sentences = []
    for title, numbers in sorted(groups.items(), key=rank):
        sizes = []
        for judged_number in numbers:
            medium = judged_number.average.params.get(_MEDIUM)
            sizes.append(" on ".join(filter(None, (_size(judged_number), medium and names.of({_MEDIUM: medium})))))
        sentences.append(f"{title}: {', '.join(filter(None, sizes))}")
    return tuple(sentences)


def _size(judged_number: JudgedNumber) -> str:
    """The change in the metric's unit and in per cent; empty: unknown."""
    average, old = judged_number.average, judged_number.baseline
    if old is None or judged_number.judgement.effect is None:
        return ""
    change = average.value - old.value
    text = number(abs(change), max(average.uncertainty, old.uncertainty), average.metric)
    return f"{'+' if change > 0 else '−'}{text} {average.metric.unit} ({_percent(judged_number.judgement.effect)})"


def line(counts: Mapping[str, int]) -> str:
    """The counts as a sentence, always in the same order.

    E.g. `2 worse, 3 not measured, 96 unchanged`.
    """
    return ", ".join(f"{counts[word]} {word}" for word in WORDS if counts.get(word)) or "no numbers"


def _state(counts: Counter[Verdict], *, whole: bool) -> str:
    verdicts = set(counts)
    if verdicts & _BAD:
        return "bad"
    if verdicts <= {Verdict.NO_HISTORY}:  # or no number at all
        return "plain"
    return "good" if verdicts <= _SAME and whole else ""


def _by_word(counts: Counter[Verdict], same: int) -> dict[str, int]:
    """The numbers counted by the reader's words."""
    words = {
        Verdict.REGRESSION: "worse",
        Verdict.IMPROVEMENT: "better",
        Verdict.NO_HISTORY: UNCOMPARED,
    }
    word_counts = {word: counts[verdict] for verdict, word in words.items()}
    word_counts[UNCHANGED] = same
    word_counts["not comparable"] = sum(counts.values()) - sum(word_counts.values())
    return {word: count for word, count in word_counts.items() if count}


def _comparison_row(judged_number: JudgedNumber, names: Names) -> JudgedRow:
    average, judgement = judged_number.average, judged_number.judgement
    change = ""
    if judgement.effect is not None:
        change = f"{_percent(judgement.effect)}"
        if judgement.low is not None and judgement.high is not None:
            change += f" ({_percent(judgement.low)} to {_percent(judgement.high)})"
    return JudgedRow(
        metric=average.metric.name,
        title=names.number(average.metric, average.params),
        before=""
        if judged_number.baseline is None
        else with_uncertainty(judged_number.baseline.value, judged_number.baseline.uncertainty, average.metric),
        now=with_uncertainty(average.value, average.uncertainty, average.metric),
        change=change,
        verdict=str(judgement.verdict),
        reason=judgement.reason,
        bad=judgement.verdict in _BAD,
        strip=strip_of(judged_number),
    )


def strip_of(judged_number: JudgedNumber) -> RowStrip | None:
    """A number as a strip under its baseline, or None."""
    average, old = judged_number.average, judged_number.baseline
    if old is None:
        return None
    ends = [number(end, old.uncertainty, average.metric) for end in (min(old.values), max(old.values))]
    between = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    runs = "1 run" if len(old.values) == 1 else f"{len(old.values)} runs"
    now = with_uncertainty(average.value, average.uncertainty, average.metric)
    return row_strip(
        old.values,
        (average.value, average.uncertainty),
        f"{runs} before: {between} {average.metric.unit}; now {now}",
        (old.value, old.uncertainty),
    )


def _percent(share: float) -> str:
    text = format_fixed(100 * share, 1 if abs(share) < 0.1 else 0)
    return f"{text if text.startswith('-') or not float(text) else f'+{text}'} %"
