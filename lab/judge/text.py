"""Sentences on changes and failures, for mail, CI and the command line.

Numbers of one board that began to move with one run, or by one cause, are one `VerdictChange`. No other module has such
sentences: the exporter passes them to Alertmanager's templates (farm/alertmanager/boardlab.tmpl), and
`lab.judge.summary` writes them into summaries.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import AttrsInstance, asdict, evolve, field, frozen

from lab.errors import ConfigurationError
from lab.failures import BOOT_FAILURES
from lab.judge.known_failures import KnownFailure, Recognition, of_verdict
from lab.judge.records import CALLED, DRIFT, ChangeStart, NewVerdict, StoredVerdict
from lab.metrics.catalogue import BOOT_STAGE
from lab.metrics.rates import FAILED, RATES, FailureRate
from lab.results.formatting import anchor, decimals, label, rate_document
from lab.results.standing_failures import StandingFailure
from lab.terminal import plain

MAX_LINES: Final = 10  # lines on the numbers of one change
BOOT: Final = "boot"  # a kind of run
RUN: Final = "{run}"  # stands for the run's id in the address of a report
_TRIED: Final = "medium"  # parameter by which a report groups attempts that have it
_MOST_DECIMALS: Final = 2  # of percentages
_NAMES: Final = {"regression": "Regression", "improvement": "Improvement", "environment": "Environment"}
_PANIC: Final = re.compile(r"^Kernel panic - not syncing: |!? exitcode=0x[0-9a-f]+.*$")
_LINE: Final = 100  # most characters of a console's line in a title
_SMALL_STEPS: Final = "no single cause: many small steps"
_HASH: Final = re.compile(r"(?:sha256:)?([0-9a-f]{12})[0-9a-f]{20,}")


@frozen
class VerdictChange:
    """Numbers of a board that moved together, with the same outcome.

    They began with the same run, or have the same known cause.

    Attributes:
        outcome: "regression", "improvement" or "environment".
        began: first run of the change.
        differs: known differences of that run: cause -> value before, and value since.
        verdicts: verdicts on the numbers, at least one; those with the fewest parameters come first, and of them the
            one that moved most.
        others: boards with the same change by the same cause.
        parts: parts of the boot that differ, if the runs were diagnosed.
        known: known failures that explain the change; None: it is new.
        shifted: True if time moved between stages of the boot, and the boot time did not change.
    """

    board_type: str
    board: str
    outcome: str
    began: ChangeStart
    differs: Mapping[str, tuple[str, str]]
    verdicts: tuple[StoredVerdict, ...]
    others: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    known: Recognition | None = None
    shifted: bool = False

    @property
    def title(self) -> str:
        """The change in one line: outcome, board, number, size and first run."""
        first, more = self.verdicts[0], len(self.verdicts) - 1
        also = f" and {more} more number{'s' * (more > 1)}" if more else ""
        has_cause = self.outcome == "environment" and self.differs and not first.crept
        changed = f" ({', '.join(self.differs)} changed)" if has_cause else ""
        since = f"{'in small steps ' * first.crept}since run {self.began.run}"
        begin = self.known.phrase if self.known else ""
        name = "Time moved between stages" if self.shifted else _NAMES[self.outcome]
        return f"{begin}{name} on {plain(self.board)}{changed}: {_number(first)} {size(first)}{also}, {since}"

    @property
    def lines(self) -> list[str]:
        """One line for each metric, with its numbers and sizes; if time moved between stages, one for each stage."""
        if self.shifted:
            return [_line(verdict.metric, [verdict]) for verdict in self.verdicts[:MAX_LINES]]
        by_metric: dict[str, list[StoredVerdict]] = {}
        for verdict in self.verdicts:
            by_metric.setdefault(verdict.metric, []).append(verdict)
        lines = [_line(metric, verdicts) for metric, verdicts in list(by_metric.items())[:MAX_LINES]]
        left = list(by_metric.values())[MAX_LINES:]
        if left:
            lines.append(f"and {sum(map(len, left))} numbers of {len(left)} more metrics")
        return lines

    @property
    def boards(self) -> str:
        """The board, and those with the same change."""
        likewise = f", likewise {', '.join(map(plain, self.others))}" if self.others else ""
        return plain(self.board) + likewise

    @property
    def since(self) -> str:
        """The first run with its date, release and image."""
        began = self.began
        image = f", image {_short(self.differs['image'][1])}" if "image" in self.differs else ""
        return f"run {began.run}, {began.at:%Y-%m-%d %H:%M} UTC, release {plain(began.release)}{image}"

    @property
    def differing(self) -> str:
        """The known differences of the first run from the run before, in one line."""
        return differing(self.differs)


@frozen
class EvidenceLinks:
    """Links to the evidence of a change, or commands that show it.

    Attributes:
        address: URL of the reports that `lab report` writes, with {run} in it; empty: there is none, and commands are
            given in place of links.
    """

    address: str = field()

    @address.validator
    def _is_an_address(self, _attribute: object, value: str) -> None:
        if value and (urlsplit(value).scheme not in {"http", "https"} or RUN not in value):
            raise ConfigurationError(
                f"address of reports {value!r}: expected http(s) and {RUN}, "
                f"e.g. https://lab.example.org/runs/{RUN}.html"
            )

    def report(self, change: VerdictChange) -> str:
        """Return the link to the report of a change's first run, at its first metric."""
        if not self.address:
            return f"lab report {change.began.run}"
        return f"{self._of(change.began.run)}#{change.verdicts[0].metric}"

    def log(self, change: VerdictChange) -> str:
        """Return the link to the parts of the logs that show the change's first number."""
        first = change.verdicts[0]
        params = {name: value for name, value in first.params.items() if name == _TRIED}
        if self.address:
            return f"{self._of(change.began.run)}#{anchor(params or first.params)}"
        medium = f" --medium {shlex.quote(plain(params[_TRIED]))}" if params else ""
        return f"lab results show {change.began.run} --log --metric {first.metric}{medium}"

    def run(self, run: int) -> str:
        """Return the link to a run's report."""
        return self._of(run) if self.address else f"lab report {run}"

    def attempts(self, failing: StandingFailure) -> str:
        """Return the link to the failed attempts, with the log of the newest one."""
        run = failing.last.id
        if not self.address:
            return f"lab results show {run} --log"
        return f"{self._of(run)}#{anchor(failing.params)}"

    def _of(self, run: int) -> str:
        return self.address.replace(RUN, str(run))


def changes(
    verdicts: Iterable[StoredVerdict], began: Mapping[int, ChangeStart], known: Sequence[KnownFailure] = ()
) -> list[VerdictChange]:
    """Group verdicts into changes, regressions first; a known failure is a change of its own.

    Args:
        verdicts: verdicts with or without a change; of several on one number and cause the first one counts.
        began: run id -> first run of a change.
        known: known failures.
    """
    groups: dict[tuple[object, ...], dict[tuple[object, ...], tuple[StoredVerdict, Recognition | None]]] = {}
    for verdict in verdicts:
        if verdict.outcome in CALLED and verdict.since_run is not None:
            run, cause = verdict.run, tuple(sorted(verdict.differs.items())) or verdict.since_run
            recognition = of_verdict(known, verdict)
            state = recognition.state if recognition else None
            group = groups.setdefault((run.board_type, run.board, verdict.outcome, cause, state), {})
            number = (run.kind, verdict.metric, verdict.version, tuple(sorted(verdict.params.items())))
            group.setdefault(number, (verdict, recognition))
    grouped = [_change(tuple(group.values()), began) for group in groups.values()]
    # Stages that got slower, and stages of the same media that got faster with the same run, are one change.
    faster = {_stages(change): change for change in grouped if change.outcome == "improvement" and _stages(change)}
    shifted, used = [], set[object]()
    for change in grouped:
        other = faster.get(key) if (key := _stages(change)) and change.outcome == "regression" else None
        if other is None:
            shifted.append(change)
        else:
            used.add(key)
            shifted.append(evolve(change, verdicts=(*change.verdicts, *other.verdicts), shifted=True))
    grouped = [change for change in shifted if change.outcome != "improvement" or _stages(change) not in used]
    grouped = [evolve(change, others=_others(change, grouped)) for change in grouped]
    return sorted(
        grouped, key=lambda change: (CALLED.index(change.verdicts[0].outcome), change.board, change.began.run)
    )


def failing_title(failing: StandingFailure, known: Recognition | None = None) -> str:
    """Return a standing failure in one line: board, release, cause with its line, frequency and first run."""
    failure = failing.cause.outcome.replace("_", " ")
    line = _PANIC.sub("", failing.line)
    cause = f"{failure} '{plain(line)[:_LINE]}'" if line else failure
    release = f"release {plain(failing.release)}" if failing.release else "its software"
    where = "" if failing.every or not any(failing.items) else f" {', '.join(map(plain, failing.items))}"
    if failing.fault not in {"", "board"}:
        how = f"{release}{where and f' ({where.strip()})'}: the {failing.fault} fails"
    elif not failing.dead:
        how = f"{release} fails at times{where and f' ({where.strip()})'}"
    elif failing.last.kind == BOOT or failing.cause.outcome in BOOT_FAILURES:
        how = f"{release} does not boot{where and f' from{where}'}"
    else:
        how = f"{release} fails{where and f' ({where.strip()})'}"
    count = f"{failing.failed} of {failing.attempts} attempts"
    begin = known.phrase if known else ""
    since = f"since run {failing.since.id}, {failing.since.started_at:%a %Y-%m-%d %H:%M} UTC"
    return f"{begin}{plain(failing.board)}: {how}: {cause}, {count}, {since}"


def failing_lines(failing: StandingFailure) -> list[str]:
    """Return the console's line of a standing failure, or else its message; empty: it has neither."""
    text = plain(failing.line or failing.message)
    return [f"{failing.cause.outcome}: {text}"] if text else []


def differing(differs: Mapping[str, tuple[str, str]]) -> str:
    """Return known differences in one line, as cause, value before and value since."""
    if DRIFT in differs:
        return _SMALL_STEPS
    texts = [f"{cause} {_short(before)} -> {_short(since)}" for cause, (before, since) in differs.items()]
    return "; ".join(texts) or "nothing that is known"


def failure_rates(verdict: NewVerdict) -> tuple[FailureRate, FailureRate] | None:
    """Return the failure rates before a change and since; None: the verdict is not on a failure rate."""
    shares = verdict.differs.get(FAILED) if verdict.metric in {metric.name for metric in RATES.values()} else None
    return (FailureRate.of_share(shares[0]), FailureRate.of_share(shares[1])) if shares else None


def size(verdict: StoredVerdict) -> str:
    """Return the size of a change, e.g. `+3.0 % ± 0.4 %`.

    A failure rate gives e.g. `fails 6.7 % (2.6 to 15.9 %), was 0 of 180`.
    """
    if rates := failure_rates(verdict):
        before, now = rates
        low, high = now.interval_percent
        return f"fails {now.percent:.1f} % ({low:.1f} to {high:.1f} %), was {before.share}"
    if verdict.effect is None:
        return "moved"
    if verdict.low is None or verdict.high is None:
        return f"in some boots {verdict.effect * 100:+.1f} %" if verdict.mode else f"{verdict.effect * 100:+.1f} %"
    bound = (verdict.high - verdict.low) / 2 * 100
    places = min(_MOST_DECIMALS, decimals(bound))
    return f"{verdict.effect * 100:+.{places}f} % ± {bound:.{places}f} %"


def _change(
    pairs: Sequence[tuple[StoredVerdict, Recognition | None]], began: Mapping[int, ChangeStart]
) -> VerdictChange:
    """Return the change of verdicts that belong together, each with the known failures that explain it."""
    verdicts = [verdict for verdict, _ in pairs]
    first = min(verdicts, key=lambda verdict: verdict.since_run or 0)
    run, since = first.run, first.since_run or 0
    ordered = tuple(sorted(verdicts, key=lambda v: (len(v.params), -abs(v.effect or 0), v.metric, label(v.params))))
    start = began.get(since) or ChangeStart(since, run.started_at, run.release)
    recognitions = [recognition for _, recognition in pairs if recognition]
    merged = (
        Recognition(
            recognitions[0].state, tuple(failure for recognition in recognitions for failure in recognition.known)
        )
        if recognitions
        else None
    )
    return VerdictChange(run.board_type, run.board, first.outcome, start, first.differs, ordered, known=merged)


def _stages(change: VerdictChange) -> object:
    """Return board, first run and media of a change of stages alone; None: other numbers moved, too."""
    if any(verdict.metric != BOOT_STAGE.name for verdict in change.verdicts):
        return None
    media = frozenset(verdict.params.get(_TRIED, "") for verdict in change.verdicts)
    return change.board_type, change.board, change.began.run, media


def _others(change: VerdictChange, every: Sequence[VerdictChange]) -> tuple[str, ...]:
    """Return the other boards with the same change by the same cause."""
    if not change.differs:
        return ()
    same = (other for other in every if (other.outcome, other.differs) == (change.outcome, change.differs))
    return tuple(sorted(other.board for other in same if other.board != change.board))


def _number(verdict: StoredVerdict) -> str:
    params = label(verdict.params)
    return plain(f"{verdict.metric} ({params})" if params else verdict.metric)


def _line(metric: str, verdicts: Sequence[StoredVerdict]) -> str:
    """Return the line on the numbers of one metric, with their sizes."""
    if len(verdicts) == 1:
        (verdict,) = verdicts
        return f"{_number(verdict)}: {size(verdict)}, {_worse_or_better(verdicts)}"
    effects = sorted(verdict.effect * 100 for verdict in verdicts if verdict.effect is not None)
    span = f"{effects[0]:+.1f} % to {effects[-1]:+.1f} %" if effects else "moved"
    return f"{plain(metric)}, {len(verdicts)} numbers: {span}, {_worse_or_better(verdicts)}"


def _worse_or_better(verdicts: Sequence[StoredVerdict]) -> str:
    words = {"worse" if verdict.worse else "better" for verdict in verdicts}
    return " or ".join(sorted(words, reverse=True))


def _short(value: str) -> str:
    """Return the first digits of a hash, or the start of another text."""
    whole = _HASH.fullmatch(value)
    return whole[1] if whole else plain(value)[:80]


def name(verdict: StoredVerdict) -> str:
    """Return the name of a verdict's number, e.g. `boot.time (sd)`."""
    params = label(verdict.params)
    return f"{verdict.metric} ({params})" if params else verdict.metric


def interval(verdict: StoredVerdict) -> str:
    """Return the 95 % interval of the effect, e.g. `+2.4 % to +3.8 %`."""
    if verdict.low is None or verdict.high is None:
        return "not known"
    return f"{100 * verdict.low:+.1f} % to {100 * verdict.high:+.1f} %"


def differences(verdict: StoredVerdict) -> str:
    """Return the known differences in one line, e.g. `board: A, was B`; empty: there are none."""
    if verdict.crept:
        return _SMALL_STEPS
    return "; ".join(f"{what}: {now}, was {was}" for what, (was, now) in verdict.differs.items())


def state(verdict: StoredVerdict) -> str:
    """Return what has closed a verdict, e.g. `accepted by ann: a feature`; empty: nothing has."""
    if verdict.review is not None:
        reason = f": {verdict.review.reason}" if verdict.review.reason else ""
        return f"{verdict.review.decision} by {verdict.review.by}{reason}"
    if verdict.muted is not None:
        return f"muted until {verdict.muted.until:%Y-%m-%d} by {verdict.muted.by}: {verdict.muted.reason}"
    return "over: a later run took it back, or is accepted" if verdict.over else ""


def needs(verdicts: Iterable[StoredVerdict]) -> str:
    """Return the history that verdicts lack, e.g. `needs 8 earlier runs, has 5`; empty: none lacks any."""
    from lab.judge.history.model import CONSTANTS  # noqa: PLC0415 - it imports numpy, which is slow

    counts = {verdict.n for verdict in verdicts if verdict.outcome == "no history"}
    if not counts:
        return ""
    span = " to ".join(map(str, sorted({min(counts), max(counts)})))
    return f"needs {CONSTANTS.first_runs} earlier runs, has {span}"


def sentence(verdict: StoredVerdict) -> str:
    """Return a verdict as one sentence."""
    if verdict.since_run is None:
        why = f", {needs([verdict])}" if verdict.outcome == "no history" else ""
        why = f", {size(verdict)}" if failure_rates(verdict) else why
        return f"{name(verdict)} on {verdict.run.board}, run {verdict.run.id}: {verdict.outcome}{why}"
    direction = "worse" if verdict.worse else "better"
    differs = differences(verdict) or "nothing that is known of the runs differs"
    return (
        f"{name(verdict)} on {verdict.run.board}: {verdict.outcome}, {size(verdict)}, {direction}, "
        f"{'in small steps ' * verdict.crept}since run {verdict.since_run} (n = {verdict.n}); {differs}"
    )


def document(verdict: StoredVerdict) -> dict[str, Any]:
    """Return a verdict for `--json`."""
    run, fields = verdict.run, plain_document(verdict)
    del fields["direction"], fields["outdated"], fields["over"]
    if rates := failure_rates(verdict):
        before, now = (rate_document(run.kind, verdict.params, rate) for rate in rates)
        fields["failure_rate"] = now | {"before": before}
    return fields | {
        "run": run.id,
        "board_type": run.board_type,
        "board": run.board,
        "release": run.release,
        "run_started_at": run.started_at.isoformat(),
        "definition_version": fields.pop("version"),
        "worse": verdict.worse,
        "open": verdict.open,
    }


def plain_document(record: AttrsInstance) -> dict[str, Any]:
    """Return a record for `--json`, with times as ISO 8601."""

    def serialise(_record: object, _field: object, value: Any) -> Any:
        return value.isoformat() if isinstance(value, dt.datetime) else value

    return asdict(record, value_serializer=serialise)
