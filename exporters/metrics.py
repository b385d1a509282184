"""Prometheus families of the results, open verdicts and standing failures."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import asdict, define, evolve, field
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from exporters.farm.build import LabelledValue as BuildLabelledValue
from exporters.farm.build import gauge
from exporters.measurements import ExportedMeasurement, Labels, LatestRun, RunKey, clean
from exporters.results import BUCKETS, Counts, ExportView, LabelledBuilds, Tallies, rows
from exporters.verdicts import MetricChange
from lab.host.clock import utc_now
from lab.judge.known_failures import KnownFailure, KnownState, Recognition, of_failing
from lab.judge.latest import Reference
from lab.judge.store import StandingChanges, standing
from lab.judge.summary import parts
from lab.judge.text import EvidenceLinks, VerdictChange, changes, failing_lines, failing_title, failure_rates
from lab.metrics.limits import LimitOutcome
from lab.results.formatting import label
from lab.results.records import DIAGNOSIS
from lab.results.series import newest_of_kind
from lab.results.snapshot import SnapshotReader
from lab.results.standing_failures import ExplainedItem, FailureReader, StandingFailure
from lab.results.store import SharedStore

_BOARD: Final = ("board", "board_type", "release")
_PART: Final = 2000  # samples
_CYCLES: Final = {
    "boot_duration": ("boardlab_boot_cycle_duration_seconds", "Boot times of all cycles of all runs."),
    "resume_latency": ("boardlab_resume_cycle_latency_seconds", "Resume latencies of all cycles of all runs."),
}

_OUTCOMES: Final = tuple(LimitOutcome)  # pass, marginal, fail

LabelledValue = tuple[dict[str, str], float]  # labels, value


class Results(Collector):
    """Collector of the store's view; set `view` to the newest one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.view: ExportView | None = None
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        if self.view is None:
            return
        yield from _figures(self.view.groups)
        yield from _of_groups(self.view.groups)
        yield from _changes(self.view.changes)
        yield from _gauge(
            "boardlab_release_not_measured",
            "1: the newest release has no completed run of this kind on a "
            "board that the release before was measured on.",
            ((asdict(board), 1.0) for board in self.view.unmeasured),
        )
        yield from _builds(self.view.builds)
        yield from _last_runs(self.view)
        yield _attempts(self.view.tallies)
        yield from _outcomes(self.view.outcomes)
        yield _moments(self.view.tallies)
        yield from _histograms(self.view.tallies)
        left_out = GaugeMetricFamily(
            "boardlab_results_left_out", "Omitted items, by the limits of the number of series.", labels=["what"]
        )
        for what, count in self.view.left_out.items():
            left_out.add_metric([what], count)
        yield left_out


def _figures(groups: Sequence[LatestRun]) -> Iterator[Metric]:
    """Value, uncertainty and number of samples of each metric, family by family."""
    by_family: dict[str, list[tuple[LatestRun, ExportedMeasurement]]] = {}
    for group in groups:
        for figure in group.figures:
            by_family.setdefault(figure.name.value, []).append((group, figure))
    for value, pairs in sorted(by_family.items()):
        name = pairs[0][1].name
        statistics = (
            ({**_labels(group, figure.labels), "stat": stat}, number)
            for group, figure in pairs
            for stat, number in zip(figure.stats, figure.values, strict=True)
        )
        yield from _gauge(value, f"{name.about} Latest completed run.", statistics)
        uncertainties = ((_labels(group, figure.labels), figure.uncertainty) for group, figure in pairs)
        yield from _gauge(name.uncertainty, f"± of the average of {value} at 95 %.", uncertainties)
        samples = ((_labels(group, figure.labels), float(figure.samples)) for group, figure in pairs)
        yield from _gauge(name.samples, f"Number of samples of {value}.", samples)


def _gauge(name: str, about: str, rows: Iterable[LabelledValue]) -> Iterator[Metric]:
    """A family of gauges in small parts, at least one."""
    rest = iter(rows)
    while True:
        part = GaugeMetricFamily(name, about)
        part.samples += [Sample(name, labels, value) for labels, value in itertools.islice(rest, _PART)]
        yield part
        if len(part.samples) < _PART:
            return


def _of_groups(groups: Sequence[LatestRun]) -> Iterator[Metric]:
    flagged = (
        ({**_labels(group, ()), "metric": metric, "flag": flag}, float(count))
        for group in groups
        for (metric, flag), count in group.flagged.items()
    )
    yield from _gauge("boardlab_flagged_samples", "Samples of the latest completed run that carry a flag.", flagged)
    duration = ((_labels(group, ()), group.duration_s) for group in groups)
    yield from _gauge("boardlab_run_duration_seconds", "Duration of the latest completed run.", duration)
    limits = [
        ({**_labels(group, limit.labels), "metric": limit.metric, "of": limit.of}, limit)
        for group in groups
        for limit in group.limits
    ]
    bounds = (({**labels, "bound": bound}, value) for labels, limit in limits for bound, value in limit.bounds.items())
    yield from _gauge("boardlab_limit", "The lab's limit of a number, in its base unit.", bounds)
    outcomes = ((labels, float(_OUTCOMES.index(limit.outcome))) for labels, limit in limits)
    about = "Outcome of a limit in the latest completed run: 0 pass, 1 marginal, 2 fail."
    yield from _gauge("boardlab_limit_outcome", about, outcomes)


_CHANGES: Final = {
    Reference.RELEASE: "from the release before",
    Reference.BASELINE: "from the last accepted runs",
}


def _changes(changes: Sequence[MetricChange]) -> Iterator[Metric]:
    for kind, source in _CHANGES.items():
        of_kind = [change for change in changes if change.kind is kind]
        ratios = (
            (_of(change) | ({"against": change.against} if change.against else {}), change.ratio)
            for change in of_kind
            if change.ratio is not None
        )
        yield from _gauge(
            f"boardlab_{kind}_change_ratio", f"Change of the average {source}, relative to that.", ratios
        )
        regressions = ((_of(change) | {"known": change.known}, float(change.regression)) for change in of_kind)
        about = f"1: the judge calls the change {source} a regression, and the run is not accepted."
        yield from _gauge(f"boardlab_{kind}_regression", about, regressions)


def _builds(builds: Sequence[LabelledBuilds]) -> Iterator[Metric]:
    of = [
        ({"board": labelled.board, "board_type": labelled.board_type, "release": labelled.release}, labelled)
        for labelled in builds
    ]
    about = "Number of builds with this release's label on this board."
    yield from _gauge("boardlab_label_builds", about, ((labels, float(labelled.builds)) for labels, labelled in of))
    about = "Number of labels of this release's latest build, on boards of this type."
    yield from _gauge("boardlab_build_labels", about, ((labels, float(labelled.labels)) for labels, labelled in of))


def _of(change: MetricChange) -> dict[str, str]:
    return {**_key_labels(change.key, change.labels), "metric": change.metric}


def _labels(group: LatestRun, more: Labels) -> dict[str, str]:
    return _key_labels(group.key, more)


def _key_labels(key: RunKey, more: Labels) -> dict[str, str]:
    own = {"board": key.board, "board_type": key.board_type, "release": key.release, "kind": key.kind}
    place = {name: value for name, value in (("medium", key.medium), ("init", key.init)) if value}
    return {**own, **place, **dict(more)}


def _last_runs(view: ExportView) -> Iterator[Metric]:
    completion = GaugeMetricFamily(
        "boardlab_last_completion_timestamp_seconds",
        "Time of the last end of a run of this kind, completed or not.",
        labels=[*_BOARD, "kind"],
    )
    success = GaugeMetricFamily(
        "boardlab_last_success_timestamp_seconds",
        "Time of the last completion of a run of this kind.",
        labels=[*_BOARD, "kind"],
    )
    for last in view.last_runs:
        labels = [last.board, last.board_type, last.release, last.kind]
        completion.add_metric(labels, last.completion)
        if last.success is not None:
            success.add_metric(labels, last.success)
    yield from (completion, success)


def _attempts(tallies: Tallies) -> Metric:
    attempts = CounterMetricFamily(
        "boardlab_attempts",
        "Attempts by how they ended: ok, or the failure class, and whose fault it was.",
        labels=[*_BOARD, "medium", "outcome", "fault"],
    )
    for key, count in tallies.attempts.items():
        attempts.add_metric([key.board, key.board_type, key.release, key.medium, key.outcome, key.fault], count)
    return attempts


def _outcomes(counts: Counts) -> Iterator[Metric]:
    rest = rows(counts)
    while True:
        part = CounterMetricFamily(
            "boardlab_outcomes",
            "Attempts of a board by how they ended; every failure class is there from its first run on.",
            labels=["board", "board_type", "outcome"],
        )
        for board, outcome, count in itertools.islice(rest, _PART):
            part.add_metric([board.board, board.board_type, outcome], count)
        yield part
        if len(part.samples) < _PART:
            return


def _moments(tallies: Tallies) -> Metric:
    moments = CounterMetricFamily("boardlab_moments", "Moments found on the consoles of attempts.", labels=_BOARD)
    for (board, board_type, release), count in tallies.moments.items():
        moments.add_metric([board, board_type, release], count)
    return moments


def _histograms(tallies: Tallies) -> Iterator[Metric]:
    for quantity, (name, about) in _CYCLES.items():
        rest = iter([(key, histogram) for key, histogram in tallies.cycles.items() if key.quantity == quantity])
        while True:
            part = Metric(name, about, "histogram")
            for key, histogram in itertools.islice(rest, _PART // len(BUCKETS[quantity])):
                own = {"board": key.board, "board_type": key.board_type, "release": key.release, **dict(key.labels)}
                bounds = [*(str(float(bound)) for bound in BUCKETS[quantity]), "+Inf"]
                for bound, count in zip(bounds, itertools.accumulate(histogram.counts), strict=True):
                    part.samples.append(Sample(f"{name}_bucket", {**own, "le": bound}, float(count)))
                part.samples.append(Sample(f"{name}_count", own, float(sum(histogram.counts))))
                part.samples.append(Sample(f"{name}_sum", own, histogram.total_s))
            yield part
            if not part.samples:
                break


MAX_CHANGES: Final = 100
DEAD, AT_TIMES = "dead", "at_times"  # all attempts of the newest run fail, or some
LONGEST_WORDS: Final = 1000  # characters of a text label; each change has one series with such labels
_NUMBER: Final = ("board", "board_type", "kind", "metric", "params", "outcome", "since_run")
_CHANGE: Final = ("board", "board_type", "outcome", "since_run", "known")
_FAILURE: Final = ("board", "board_type", "release", "outcome", "cause", "state", "known")
_FAILURE_WORDS: Final = ("title", "said", "report", "log")
_WORDS: Final = ("title", "moved", "since", "boards", "differs", "report", "log")


@define
class StandingMetrics:
    """Collects a store's open verdicts and its standing failures."""

    watcher: SnapshotReader
    evidence: EvidenceLinks
    known_failures: Sequence[KnownFailure] = ()
    now: Callable[[], datetime] = utc_now
    _store: SharedStore = field(factory=SharedStore, init=False)
    _parts: dict[tuple[object, ...], tuple[str, ...]] = field(factory=dict, init=False)
    _reader: FailureReader = field(factory=FailureReader, init=False)

    def verdicts(self) -> list[Metric]:
        """Families of the open verdicts.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            open_verdicts = snapshot.read(lambda session: standing(session, self.now()))
            newest = newest_of_kind(snapshot, DIAGNOSIS)
        lines_of: dict[tuple[object, ...], tuple[str, ...]] = {}

        def parts_of(change: VerdictChange) -> tuple[str, ...]:
            if newest is None:
                return ()
            key = (newest, _standing_labels(change), tuple(verdict.id for verdict in change.verdicts))
            if (lines := self._parts.get(key)) is None:
                with self._store.store_at(self.watcher.location.url.render_as_string(hide_password=False)) as store:
                    lines = parts(store, change)
            lines_of[key] = lines
            return lines

        metrics = list(families(open_verdicts, self.evidence, self.known_failures, parts_of))
        self._parts = lines_of
        return metrics

    def failures(self) -> list[Metric]:
        """Families of the standing failures.

        Raises:
            BoardlabError: the store cannot be read.
        """
        with self.watcher.snapshot() as snapshot:
            failings, explained = self._reader.read(snapshot, self.now())
        return list(_failures(failings, explained, self.evidence, self.known_failures))


def _failures(
    failings: Sequence[StandingFailure],
    explained: Sequence[ExplainedItem],
    evidence: EvidenceLinks,
    known: Sequence[KnownFailure],
) -> Iterator[Metric]:
    every = [(failing, of_failing(known, failing)) for failing in failings]
    shown = sorted(every, key=lambda pair: _is_open(pair[1]))[:MAX_CHANGES]
    counts = [(_failure_labels(failing, its_known), float(failing.failed)) for failing, its_known in shown]
    about = "Failed attempts of a board by cause, since the first run with that cause."
    yield gauge("boardlab_failing", about, _FAILURE, counts)
    family = GaugeMetricFamily(
        "boardlab_failing_info", "Texts of a cause's mail.", labels=[*_FAILURE, *_FAILURE_WORDS]
    )
    for failing, its_known in shown:
        where = (evidence.run(failing.last.id), evidence.attempts(failing))
        words = (failing_title(failing, its_known), "\n".join(failing_lines(failing)), *where)
        labels = map(clean, _failure_labels(failing, its_known))
        family.add_metric([*labels, *(text[:LONGEST_WORDS] for text in words)], 1.0)
    yield family
    about = (
        "1: the samples that a board's last run of this kind lacks of this item are missing since its attempts failed."
    )
    items = [((item.board, item.kind, item.item), 1.0) for item in explained]
    yield gauge("boardlab_failing_item", about, ("board", "kind", "item"), items)
    left_out = [((), float(len(failings) - len(shown)))]
    yield gauge("boardlab_failing_left_out", "Number of omitted causes.", (), left_out)


def _failure_labels(failing: StandingFailure, known: Recognition | None) -> tuple[str, ...]:
    state = DEAD if failing.dead else AT_TIMES
    known_state = known.state.value if known else ""
    return (
        failing.board,
        failing.board_type,
        failing.release,
        failing.cause.outcome,
        failing.cause.line,
        state,
        known_state,
    )


def _is_open(known: Recognition | None) -> bool:
    """True for a known failure without a mail; it comes last."""
    return known is not None and known.state is KnownState.OPEN


def families(
    standing_changes: StandingChanges,
    evidence: EvidenceLinks,
    known: Sequence[KnownFailure] = (),
    parts_of: Callable[[VerdictChange], tuple[str, ...]] = lambda _change: (),
) -> Iterator[Metric]:
    """Families of the open verdicts."""
    every = sorted(
        changes(standing_changes.unmuted, standing_changes.began, known), key=lambda change: _is_open(change.known)
    )
    shown = [evolve(change, parts=parts_of(change)) for change in every[:MAX_CHANGES]]
    effects: list[BuildLabelledValue] = []
    errors: list[BuildLabelledValue] = []
    shares: list[BuildLabelledValue] = []
    for change in shown:
        for verdict in change.verdicts:
            values = (verdict.metric, label(verdict.params), verdict.outcome, str(verdict.since_run))
            labels = (change.board, change.board_type, verdict.run.kind, *values)
            if verdict.effect is not None:
                effects.append((labels, verdict.effect))
            if rates := failure_rates(verdict):
                before, now = rates
                low, high = (percent / 100 for percent in now.interval_percent)
                stats = {"before": before.percent / 100, "avg": now.percent / 100, "low": low, "high": high}
                shares += [((*labels, stat), value) for stat, value in stats.items()]
            if verdict.low is not None and verdict.high is not None:
                errors.append((labels, (verdict.high - verdict.low) / 2))
    about = (
        "of a number that moved and that nobody has decided on, relative: 0.02 is 2 % more, which may be better or "
        "worse."
    )
    yield gauge("boardlab_verdict", f"The change {about}", _NUMBER, effects)
    yield gauge("boardlab_verdict_uncertainty", f"± at 95 % of the change {about}", _NUMBER, errors)
    about = "Share of failed attempts since an open verdict on it (avg, low, high at 95 %), and before."
    yield gauge("boardlab_verdict_failure_ratio", about, (*_NUMBER, "stat"), shares)
    counts = [(_standing_labels(change), float(len(change.verdicts))) for change in shown]
    yield gauge("boardlab_verdict_change", "Count of numbers that moved together.", _CHANGE, counts)
    yield _words(shown, evidence)
    muted = Counter((verdict.run.board, verdict.run.board_type) for verdict in standing_changes.muted)
    rows = [(key, float(count)) for key, count in muted.items()]
    yield gauge("boardlab_verdict_muted", "Count of moved numbers that are muted.", ("board", "board_type"), rows)
    left_out = standing_changes.left_out + sum(len(change.verdicts) for change in every[MAX_CHANGES:])
    yield gauge("boardlab_verdict_left_out", "Count of moved numbers that are omitted.", (), [((), float(left_out))])


def _words(shown: Sequence[VerdictChange], evidence: EvidenceLinks) -> Metric:
    family = GaugeMetricFamily("boardlab_verdict_change_info", "Texts of a change's mail.", labels=[*_CHANGE, *_WORDS])
    for change in shown:
        words = (
            change.title,
            "\n".join((*change.lines, *change.parts)),
            change.since,
            change.boards,
            change.differing,
        )
        texts = [text[:LONGEST_WORDS] for text in (*words, evidence.report(change), evidence.log(change))]
        family.add_metric([*map(clean, _standing_labels(change)), *texts], 1.0)
    return family


def _standing_labels(change: VerdictChange) -> tuple[str, ...]:
    known_state = change.known.state.value if change.known else ""
    return (change.board, change.board_type, change.outcome, str(change.began.run), known_state)
