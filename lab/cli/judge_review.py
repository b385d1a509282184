"""`lab judge accept|reject|mute|stats`: what people decide on verdicts, and how good these were."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer
from attrs import asdict

from lab.cli.judgearguments import OfBoard, instant, number_of
from lab.cli.options import Database, Json
from lab.errors import ConfigurationError
from lab.judge.records import Decision
from lab.judge.statistics import by_month
from lab.judge.store import mute, read_verdicts, review
from lab.judge.text import plain_document
from lab.results.store import open_store
from lab.shown import echo, echo_json, table

app = typer.Typer(help="Whether numbers moved, by how much, and what else moved with them.", no_args_is_help=True)

RunNumber = Annotated[str, typer.Argument(metavar="RUN", help="The run's number, or latest.")]


@app.command("accept")
def accept_command(
    run: RunNumber,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why it is as it should be.")] = "",
    as_json: Json = False,
    db: Database = None,
) -> None:
    """A run's numbers are as they should be now: its verdicts are closed, and it counts as a base to compare with."""
    _review(run, "accepted", reason, as_json, db)


@app.command("reject")
def reject_command(
    run: RunNumber,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What was wrong with it.")],
    as_json: Json = False,
    db: Database = None,
) -> None:
    """A run's numbers are wrong (a loose cable, a wrong card): they count for nothing, and its verdicts are closed."""
    _review(run, "rejected", reason, as_json, db)


@app.command("mute")
def mute_command(
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="Its name, e.g. boot.time; * and ? are patterns.")],
    *,
    until: Annotated[str, typer.Option(metavar="DATE", help="The day at whose beginning (UTC) it ends: 2026-12-24.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why nobody needs to hear of it.")],
    board: OfBoard = None,
    params: Annotated[
        str | None,
        typer.Option(metavar="NAME=VALUE,...", help="Of these parameters only, e.g. medium=sd; * and ? are patterns."),
    ] = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Hear nothing of a number until a day: its verdicts are kept, but fail nothing and are in no list of open ones."""
    wanted = _params(params)
    with open_store(db, create=False) as store:
        kept = mute(store, metric, board=board, params=wanted, until=instant(until), reason=reason, by=_who())
    if as_json:
        echo_json(plain_document(kept))
        return
    about = ", ".join(f"{name}={value}" for name, value in wanted.items())
    what = " ".join(part for part in (metric, about) if part)
    echo(f"{what} of {board or 'every board'} is muted until {kept.until:%Y-%m-%d %H:%M} UTC")


@app.command("stats")
def stats_command(*, as_json: Json = False, db: Database = None) -> None:
    """Verdicts by month: how many of each kind, how many were rejected (false alarms) or accepted, how many reruns."""
    with open_store(db, create=False) as store:
        months = by_month(read_verdicts(store))
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


def _review(run: str, decision: Decision, reason: str, as_json: bool, db: str | None) -> None:
    with open_store(db, create=False) as store:
        kept = review(store, number_of(store, run), decision, _who(), reason)
        closed = sum(verdict.outcome != "none" for verdict in read_verdicts(store, run_id=kept.run_id))
    if as_json:
        echo_json(plain_document(kept))
        return
    echo(f"run {kept.run_id} is {decision} by {kept.by}; {closed} verdicts are closed")


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
