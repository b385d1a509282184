"""`lab judge …`: whether numbers moved."""

from __future__ import annotations

import datetime as dt
import getpass
import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from attrs import asdict

from lab.cli.options import Database, Json, RunName, run_number
from lab.errors import ConfigurationError
from lab.farm.runner import UNCONFIRMED
from lab.judge import builds, latest, summary, text
from lab.judge.baseline import JudgedNumber, JudgedRun, document, judge_run
from lab.judge.builds import remarks
from lab.judge.compare import Verdict
from lab.judge.records import CALLED, OPEN, UNSURE, Decision
from lab.judge.records import StoredVerdict as RecordsVerdict
from lab.judge.replay import replay as verdicts
from lab.judge.store import mute, read_verdicts, review, still_open, verdicts_with
from lab.judge.text import BOOT as BOOT_KIND
from lab.judge.text import EvidenceLinks, plain_document, size
from lab.metrics.catalogue import BOOT_TIME
from lab.metrics.rates import RATES
from lab.results.formatting import label, number, rate_document
from lab.results.records import LAST_ID
from lab.results.snapshot import watch
from lab.results.standing_failures import FailureReader
from lab.results.store import open_store
from lab.terminal import doubtful, echo, echo_json, echo_text, table

app = typer.Typer(help="Numbers that moved: by how much, and what else moved with them.", no_args_is_help=True)


_COMPARED: Final = frozenset({Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.BELOW_RESOLUTION, Verdict.NOISE})
_JUDGING_S: Final = 10.0  # for comparisons of all boards' latest runs

OfBoard = Annotated[str | None, typer.Option("--board", metavar="NAME", help="Only this board.")]
Everything = Annotated[bool, typer.Option("--all", help="Also numbers of which there is nothing to say.")]


def instant(text: str) -> dt.datetime:
    """Parse a day (UTC), an instant, or days ago (`7d`).

    Raises:
        ConfigurationError: it is none of them.
    """
    days = re.fullmatch(r"([0-9]{1,4})d", text)
    if days is not None:
        return dt.datetime.now(dt.UTC) - dt.timedelta(days=int(days[1]))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is no date; write it like 2026-11-22, or 2026-11-22T06:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


@app.command("run")
def run_command(
    run: RunName,
    *,
    as_json: Json = False,
    everything: Everything = False,
    summaries: Annotated[
        list[Path] | None,
        typer.Option("--summary", metavar="FILE", help="Write a summary: Markdown, HTML or text (.md, .html, .txt)."),
    ] = None,
    reports: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="LAB_REPORTS",
            help="Address of a run's report, with {run}, for links in the summary.",
        ),
    ] = "",
    db: Database = None,
) -> None:
    """Judge a run's numbers by its board's earlier runs.

    Status 1: a number is worse, for sure, and not muted; or all cycles failed. 4: it lacks what it was to measure, no
    number could be compared, or one may have moved.
    """
    from lab.judge.run_judge import judge_run  # noqa: PLC0415 - numpy; the other commands read what is written

    evidence = EvidenceLinks(reports)
    for file in summaries or ():
        summary.form_of(file)
    with open_store(db, create=False) as store:
        judged = judge_run(store, run_number(store, run))
        verdicts = verdicts_with(store, judged.run.id)
        failed = summary.count_failed_cycles(store, judged.run.id)
        worse = latest.worse_of_run(store, judged.run.id, verdicts)
        still = still_open(store, judged.run, verdicts)
        unknowns = summary.find_unknowns(store, judged.run.id)
        for file in summaries or ():
            summary.write(summary.of_run(store, judged.run.id), file, evidence)
    if as_json:
        reported = [verdict for verdict in verdicts if everything or reportable(verdict)]
        echo_json([text.document(verdict) for verdict in (*reported, *still)])
    else:
        about = judged.run
        echo(*map(doubtful, unknowns))
        confirmed = f", confirmed by {', '.join(map(str, judged.confirmed_by))}" if judged.confirmed_by else ""
        echo(f"run {about.id}{confirmed}: {about.kind} of {about.board} ({about.board_type}), release {about.release}")
        with watch(db).snapshot() as snapshot:
            echo(*(f"note: {remark}" for remark in builds.remarks(snapshot, about.id)))
        _show(verdicts if everything else [verdict for verdict in verdicts if reportable(verdict)])
        echo(_summarise(verdicts))
        if worse and latest.still_worse(worse) not in unknowns:
            echo(doubtful(latest.still_worse(worse)))
        if failed:
            echo(f"{summary.all_failed(failed)}; look at their logs: lab results show {about.id} --log")
        if judged.asked:
            echo(
                f"another run of the same image would tell more: pytest --lab-confirms {about.id} (lab run --judge "
                "does so by itself)"
            )
    if failed or any(verdict.alarms for verdict in verdicts):
        raise typer.Exit(1)
    if unknowns or any(verdict.outcome == UNSURE and verdict.open for verdict in verdicts):
        raise typer.Exit(UNCONFIRMED)


@app.command("list")
def list_command(
    *,
    board: OfBoard = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Only this metric, e.g. boot.time.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only runs since then: 2026-11-22, or 7d for seven days.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also improvements, and reviewed or muted numbers.")
    ] = False,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List open verdicts, the newest first, and standing failures.

    Verdicts are on numbers that moved or may have moved, neither reviewed nor muted.
    """
    began = None if since is None else instant(since)
    outcomes = (*CALLED, UNSURE)
    with open_store(db, create=False) as store:
        all_verdicts = read_verdicts(store, board=board, metric=metric, since=began, outcomes=outcomes)
        newest = store.runs(1, status="completed", **({} if board is None else {"board": board}))
        if board is not None and not newest and not store.runs(1, board=board):
            raise ConfigurationError(f"board {board!r} has no run; `lab results list` shows the boards with runs")
        unjudged = [run.id for run in newest if not read_verdicts(store, run_id=run.id)]
        where, judge = store.url, latest.LatestJudge(_JUDGING_S)
        worse = {} if as_json else judge.of(store, store.now()).worse
    verdicts = [verdict for verdict in all_verdicts if everything or verdict.open]
    if as_json:
        echo_json([text.document(verdict) for verdict in verdicts])
        return
    with watch(db).snapshot() as snapshot:
        failures, _ = FailureReader().read(snapshot, dt.datetime.now(dt.UTC))
    for failure in failures:
        if board in {None, failure.board}:
            echo(f"failing: {text.failing_title(failure)}")
    for name, numbers in sorted(worse.items()):
        own_numbers = [
            number
            for number in numbers
            if metric in {None, number.metric} and (began is None or (number.at or began) >= began)
        ]
        if own_numbers and board in {None, name}:
            echo(
                doubtful(
                    f"worse: {name}: {latest.describe(own_numbers)}; `lab judge accept` or `reject` of that run "
                    "decides"
                )
            )
    if verdicts:
        _show(verdicts)
    else:
        echo(f"no {'verdicts that call something' if everything else 'open verdicts'} in {where}")
    for run_id in unjudged:
        echo(doubtful(f"the newest run, {run_id}, was not judged: lab judge run {run_id}"))


@app.command("show")
def show_command(
    which: Annotated[str, typer.Argument(metavar="ID|RUN", help="A verdict (v12, as listed), a run (12) or latest.")],
    *,
    as_json: Json = False,
    everything: Everything = False,
    db: Database = None,
) -> None:
    """Show a verdict, or those of a run, in full.

    It has size and interval, begin, differences and evidence.
    """
    single = re.fullmatch(r"v([0-9]{1,10})", which)
    with open_store(db, create=False) as store:
        if single is not None:
            verdicts = read_verdicts(store, verdict_id=min(int(single[1]), LAST_ID))
        else:
            run_id = run_number(store, which)
            store.run(run_id)
            verdicts = read_verdicts(store, run_id=run_id)
    if not verdicts:
        hint = "`lab judge list --all` has the verdicts" if single else f"judge it: lab judge run {which}"
        raise ConfigurationError(f"no verdict {which}; {hint}" if single else f"run {which} was not judged; {hint}")
    listed = [verdict for verdict in verdicts if everything or single or reportable(verdict)]
    if as_json:
        echo_json([text.document(verdict) for verdict in listed])
        return
    for verdict in listed:
        echo(*_details(verdict), "")
    echo(_summarise(verdicts))


def reportable(verdict: RecordsVerdict) -> bool:
    """Return whether a verdict has anything to report."""
    return verdict.outcome in {*CALLED, UNSURE, "no samples"}


def _show(verdicts: Sequence[RecordsVerdict]) -> None:
    if not verdicts:
        return
    rows = [
        [
            f"v{verdict.id}",
            str(verdict.run.id),
            verdict.run.board,
            text.name(verdict),
            verdict.outcome,
            "-" if verdict.effect is None and not text.failure_rates(verdict) else size(verdict),
            "-" if verdict.since_run is None else str(verdict.since_run),
            str(verdict.n or "-"),
            text.state(verdict) or text.differences(verdict) or "-",
        ]
        for verdict in verdicts
    ]
    header = ["id", "run", "board", "number", "verdict", "moved by", "since run", "n", "differs"]
    echo(*table(header, rows, "<><<<<>><"))


def _details(verdict: RecordsVerdict) -> list[str]:
    run = verdict.run
    lines = [f"v{verdict.id}  {text.sentence(verdict)}"]
    if verdict.since_run is not None:
        lines.append(
            f"  moved by   {size(verdict)} (95 %: {text.interval(verdict)}), {verdict.better} is better, n = "
            f"{verdict.n}"
        )
        lines.append(f"  since      run {verdict.since_run}")
        lines.append(f"  differs    {text.differences(verdict) or 'nothing that is known'}")
    lines.append(
        f"  run        {run.id}, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.board_type}, release {run.release}"
    )
    lines.append(f"  reruns     {verdict.reruns} used")
    lines += [f"  state      {state}"] if (state := text.state(verdict)) else []
    medium = f" --medium {verdict.params['medium']}" if "medium" in verdict.params else ""
    lines.append(
        f"  evidence   lab results show {run.id} --log{medium} --metric {verdict.metric}; lab report {run.id}"
    )
    return lines


def _summarise(verdicts: Sequence[RecordsVerdict]) -> str:
    counts = Counter(verdict.outcome for verdict in verdicts)
    needs = text.needs(verdicts)
    named = {"none": "unchanged", "no history": f"no history ({needs})"}
    parts = [f"{count} {named.get(outcome, outcome)}" for outcome, count in counts.most_common()]
    return f"{len(verdicts)} numbers: {', '.join(parts)}" if parts else "no numbers"


@app.command("compare")
def compare_command(
    run: RunName,
    *,
    against: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="A release (default: the last accepted runs).")
    ] = None,
    as_json: Json = False,
    everything: Everything = False,
    db: Database = None,
) -> None:
    """Compare a run with the last accepted runs of its board.

    With --against, compare it with a release. Status 1: a number is worse, and not accepted. 4: the run lacks what it
    was to measure, or no number could be compared.
    """
    with open_store(db, create=False) as store:
        run_id = run_number(store, run)
    with watch(db).snapshot() as snapshot:
        judged, notes = judge_run(snapshot, run_id, against), remarks(snapshot, run_id)
        gaps = summary.find_gaps(snapshot, run_id)
    notes = [*gaps, *notes]
    order = list(Verdict)
    listed = [
        judged_number
        for judged_number in judged.numbers
        if everything or judged_number.judgement.verdict not in {Verdict.NOISE, Verdict.NO_HISTORY}
    ]
    listed.sort(key=lambda judged_number: order.index(judged_number.judgement.verdict))
    if as_json:
        echo_json({**document(judged, notes, listed), "failure_rates": _rates(judged)})
    else:
        _print(judged, notes, listed)
    worse = judged.of(Verdict.REGRESSION) or any(change.outcome == "regression" for _, change in judged.rates)
    if worse and not judged.is_accepted:
        raise typer.Exit(1)
    is_compared = any(judged_number.judgement.verdict in _COMPARED for judged_number in judged.numbers)
    if gaps or not is_compared:
        raise typer.Exit(UNCONFIRMED)


def _rates(judged: JudgedRun) -> list[dict[str, object]]:
    kind = judged.head.kind
    return [
        rate_document(kind, params, change.now)
        | {
            "before": None if change.before is None else rate_document(kind, params, change.before),
            "chance": change.chance,
            "outcome": change.outcome,
        }
        for params, change in judged.rates
    ]


def _print(judged: JudgedRun, notes: Sequence[str], listed: Sequence[JudgedNumber]) -> None:
    head = judged.head
    echo(
        f"run {head.id}: {head.kind} of {head.board} ({head.board_type}), release {head.release}, against {judged.base}"
    )
    echo(*(f"note: {note}" for note in notes))
    for average in judged.missing:
        echo(
            doubtful(
                f"not measured, but in run {average.run_id}: {average.metric.name} {label(average.params)}".strip()
            )
        )
    if listed:
        header = ["number", "was", "is", "unit", "change", "95 %", "runs", "verdict"]
        echo(*table(header, [_row(judged_number) for judged_number in listed], "<>><>>><"))
    rates = [rate for rate in judged.rates if rate[1].now.failed or rate[1].outcome not in {"none", "no history"}]
    if rates:
        echo(RATES[head.kind].name, *(f"  {label(params)} {change.text()}" for params, change in rates))
    counts = Counter(judged_number.judgement.verdict for judged_number in judged.numbers)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    if judged.missing:
        parts.insert(0, f"{len(judged.missing)} not measured")
    count = len(judged.numbers) + len(judged.missing)
    echo(f"{count} numbers: {', '.join(parts)}" if parts else "no numbers")


def _row(judged_number: JudgedNumber) -> list[str]:
    average, baseline, judgement = judged_number.average, judged_number.baseline, judged_number.judgement
    between = (
        "-"
        if judgement.low is None or judgement.high is None
        else f"{100 * judgement.low:+.1f} to {100 * judgement.high:+.1f} %"
    )
    return [
        f"{average.metric.name} {label(average.params)}".strip(),
        "-" if baseline is None else number(baseline.value, baseline.uncertainty, average.metric),
        number(average.value, average.uncertainty, average.metric),
        average.metric.unit,
        "-" if judgement.effect is None else f"{100 * judgement.effect:+.1f} %",
        between,
        str(len(baseline.runs)) if baseline else "-",
        f"{judgement.verdict}: {judgement.reason}",
    ]


RunNumber = Annotated[str, typer.Argument(metavar="RUN", help="The run's number, or latest.")]


@app.command("accept")
def accept_command(
    run: RunNumber,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason why the numbers are right.")] = "",
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Accept a run's numbers as right.

    Its verdicts are closed, and it counts as a base for comparisons.
    """
    _review(run, "accepted", reason, as_json, db)


@app.command("reject")
def reject_command(
    run: RunNumber,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The fault of the run.")],
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Reject a run's numbers as wrong (a loose cable, a wrong card).

    They count for nothing, and its verdicts are closed.
    """
    _review(run, "rejected", reason, as_json, db)


@app.command("mute")
def mute_command(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Its name, e.g. boot.time; * and ? are patterns.")],
    *,
    until: Annotated[str, typer.Option(metavar="DATE", help="The day at whose beginning (UTC) it ends: 2026-12-24.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason for the mute.")],
    board: OfBoard = None,
    params: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE,...", help="Only these parameters, e.g. medium=sd; * and ? are patterns."),
    ] = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Mute a number until a day.

    Its verdicts are stored, but fail nothing and are in no list of open ones.
    """
    number_params = _params(params)
    with open_store(db, create=False) as store:
        muting = mute(store, metric, board=board, params=number_params, until=instant(until), reason=reason, by=_who())
    if as_json:
        echo_json(plain_document(muting))
        return
    about = ", ".join(f"{name}={value}" for name, value in number_params.items())
    what = " ".join(part for part in (metric, about) if part)
    echo(f"{what} of {board or 'every board'} is muted until {muting.until:%Y-%m-%d %H:%M} UTC")


@app.command("stats")
def stats_command(*, as_json: Json = False, db: Database = None) -> None:
    """Show the number of verdicts by month and kind.

    It includes rejected ones (false alarms), accepted ones, and reruns.
    """
    with open_store(db, create=False) as store:
        months = summary.by_month(read_verdicts(store))
        where = store.url
    if as_json:
        echo_json([asdict(month) for month in months])
        return
    if not months:
        echo(f"nothing was judged yet in {where}; begin with: lab judge run latest")
        return
    header = ["month", "runs", "numbers", "worse", "better", "env.", "unsure", "false", "accepted", "reruns"]
    rows = [
        [
            month.month,
            *map(str, (month.runs, month.numbers, month.regressions, month.improvements, month.environment)),
            *map(str, (month.unsure, month.rejected, month.accepted, month.reruns)),
        ]
        for month in months
    ]
    echo(*table(header, rows, "<>>>>>>>>>"))


@app.command("sensitivity")
def sensitivity_command(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="The board.")],
    *,
    metric: Annotated[str, typer.Option(metavar="NAME", help="The numbers.")] = BOOT_TIME.name,
    kind: Annotated[str, typer.Option(metavar="KIND", help="The kind of runs.")] = BOOT_KIND,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Show what the judge would find on a board, and its false alarms.

    The board's own runs are judged again and again, with boots drawn anew, with and without a step. No reruns are
    asked.
    """
    from lab.judge import sensitivity  # noqa: PLC0415 - numpy

    with open_store(db, create=False) as store:
        numbers = sensitivity.board_sensitivity(store, board, kind, metric)
    if as_json:
        echo_json([plain_document(series) for series in numbers])
        return
    steps = [f"{100 * effect:+g} %" for effect in sensitivity.EFFECTS]
    for series in numbers:
        taken_out = f", without {series.removed} changes that the judge calls in them" if series.removed else ""
        echo(f"{series.metric} {label(series.params)} of {board}: its latest {series.runs} runs{taken_out}")
        echo(*table(["boots", "false alarms a year", *steps], list(sensitivity.lines(series)), "><<<<<"))
    echo(
        f"a step: nights until half are found (-: more than {sensitivity.NIGHTS}), and the share found in "
        f"{sensitivity.NIGHTS} nights; 95 % in brackets. Reruns (lab run --judge) find large steps on the first night."
    )


def _review(run: str, decision: Decision, reason: str, as_json: bool, db: str | None) -> None:
    with open_store(db, create=False) as store:
        run_id = run_number(store, run)
        board = store.run(run_id).board
        before = [verdict.id for verdict in read_verdicts(store, board=board, outcomes=OPEN) if verdict.open]
        reviewed = review(store, run_id, decision, _who(), reason)
        after = [verdict.id for verdict in read_verdicts(store, board=board, outcomes=OPEN) if verdict.open]
        closed = len({*before} - {*after})
    if as_json:
        echo_json(plain_document(reviewed))
        return
    echo(f"run {reviewed.run_id} is {decision} by {reviewed.by}; {closed} open verdicts are closed")


def _params(text: str | None) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise ConfigurationError(f"--params {text!r}: write it like medium=sd,stage=Kernel")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


@app.command("replay", hidden=True)
def replay_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Histories as JSON lines, also .gz; - is stdin.")],
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="A line for every run, also where nothing changed.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
) -> None:
    """Judge histories run by run; print verdicts as JSON lines.

    Each run is judged as if it had just ended.
    """
    with _open_lines(file) as lines:
        for verdict in verdicts(lines, "stdin" if file == "-" else file, everything=everything, jobs=jobs):
            echo_text(verdict)


@contextmanager
def _open_lines(name: str) -> Iterator[Iterator[str]]:
    try:
        if name == "-":
            yield iter(sys.stdin)
        elif name.endswith(".gz"):
            with gzip.open(name, "rt", encoding="utf-8") as lines:
                yield iter(lines)
        else:
            with Path(name).open(encoding="utf-8") as lines:
                yield iter(lines)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {name}: {error.strerror or error}; name a file of JSON lines, or -"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"cannot read {name}: it is no UTF-8 text ({error.reason}); name a file of JSON lines"
        ) from error
