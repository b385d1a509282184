"""`lab judge run|list|show`: what the judge says of the numbers in the store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.judgearguments import Everything, OfBoard, instant, number_of
from lab.cli.options import Database, Json, RunName
from lab.errors import ConfigurationError
from lab.judge import builds, text
from lab.judge.records import CALLED, UNSURE, Verdict
from lab.judge.store import read_verdicts, verdicts_with
from lab.judge.text import Evidence, size
from lab.results.records import LAST_ID
from lab.results.snapshot import watch
from lab.results.store import open_store
from lab.shown import echo, echo_json, table

app = typer.Typer(help="Whether numbers moved, by how much, and what else moved with them.", no_args_is_help=True)


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
            metavar="URL", envvar="LAB_REPORTS", help="Where a run's report is, with {run}, for links in the summary."
        ),
    ] = "",
    db: Database = None,
) -> None:
    """Judge a run's numbers by the runs of its board before; status 1: one is worse, for sure, and not muted."""
    from lab.judge import summary  # noqa: PLC0415 - jinja2
    from lab.judge.stored import judge_run  # noqa: PLC0415 - numpy; the other commands read what is written

    evidence = Evidence(reports)
    for file in summaries or ():
        summary.form_of(file)
    with open_store(db, create=False) as store:
        judged = judge_run(store, number_of(store, run))
        verdicts = verdicts_with(store, judged.run.id)
        for file in summaries or ():
            summary.write(summary.of_run(store, judged.run.id), file, evidence)
    if as_json:
        echo_json([text.document(verdict) for verdict in verdicts if everything or said(verdict)])
    else:
        about = judged.run
        confirmed = f", confirmed by {', '.join(map(str, judged.confirmed_by))}" if judged.confirmed_by else ""
        echo(f"run {about.id}{confirmed}: {about.kind} of {about.board} ({about.board_type}), release {about.release}")
        with watch(db).snapshot() as snapshot:
            echo(*(f"note: {remark}" for remark in builds.remarks(snapshot, about.id)))
        _show(verdicts if everything else [verdict for verdict in verdicts if said(verdict)])
        echo(_counted(verdicts))
        if judged.asked:
            echo(
                f"another run of the same image would tell more: pytest --lab-confirms {about.id} (lab run --judge does so by itself)"
            )
    if any(verdict.alarms for verdict in verdicts):
        raise typer.Exit(1)


@app.command("list")
def list_command(
    *,
    board: OfBoard = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Of this metric only, e.g. boot.time.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Of runs since then: 2026-11-22, or 7d for seven days.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also improvements, and what was reviewed or is muted.")
    ] = False,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """List open verdicts, the newest first: what moved or may have, which nobody has reviewed or muted."""
    began = None if since is None else instant(since)
    outcomes = (*CALLED, UNSURE)
    with open_store(db, create=False) as store:
        found = read_verdicts(store, board=board, metric=metric, since=began, outcomes=outcomes)
        where = store.url
    verdicts = [verdict for verdict in found if everything or verdict.open]
    if as_json:
        echo_json([text.document(verdict) for verdict in verdicts])
    elif verdicts:
        _show(verdicts)
    else:
        echo(f"no {'verdicts that call something' if everything else 'open verdicts'} in {where}")


@app.command("show")
def show_command(
    which: Annotated[str, typer.Argument(metavar="ID|RUN", help="A verdict (v12, as listed), a run (12) or latest.")],
    *,
    as_json: Json = False,
    everything: Everything = False,
    db: Database = None,
) -> None:
    """Show all of a verdict, or of a run's verdicts: size and interval, since when, what differs, where the evidence is."""
    single = re.fullmatch(r"v([0-9]{1,10})", which)
    with open_store(db, create=False) as store:
        if single is not None:
            verdicts = read_verdicts(store, verdict_id=min(int(single[1]), LAST_ID))
        else:
            run_id = number_of(store, which)
            store.run(run_id)
            verdicts = read_verdicts(store, run_id=run_id)
    if not verdicts:
        mend = "`lab judge list --all` has the verdicts" if single else f"judge it: lab judge run {which}"
        raise ConfigurationError(f"no verdict {which}; {mend}" if single else f"run {which} was not judged; {mend}")
    shown = [verdict for verdict in verdicts if everything or single or said(verdict)]
    if as_json:
        echo_json([text.document(verdict) for verdict in shown])
        return
    for verdict in shown:
        echo(*_details(verdict), "")
    echo(_counted(verdicts))


def said(verdict: Verdict) -> bool:
    """Whether there is something to say."""
    return verdict.outcome in {*CALLED, UNSURE, "no samples"}


def _show(verdicts: Sequence[Verdict]) -> None:
    if not verdicts:
        return
    rows = [
        [
            f"v{verdict.id}",
            str(verdict.run.id),
            verdict.run.board,
            text.name(verdict),
            verdict.outcome,
            "-" if verdict.effect is None else size(verdict),
            "-" if verdict.since_run is None else str(verdict.since_run),
            str(verdict.n or "-"),
            _state(verdict) or text.differences(verdict) or "-",
        ]
        for verdict in verdicts
    ]
    header = ["id", "run", "board", "number", "verdict", "moved by", "since run", "n", "differs"]
    echo(*table(header, rows, "<><<<<>><"))


def _details(verdict: Verdict) -> list[str]:
    run = verdict.run
    lines = [f"v{verdict.id}  {text.sentence(verdict)}"]
    if verdict.since_run is not None:
        lines.append(
            f"  moved by   {size(verdict)} (95 %: {text.interval(verdict)}), {verdict.better} is better, n = {verdict.n}"
        )
        lines.append(f"  since      run {verdict.since_run}")
        lines.append(f"  differs    {text.differences(verdict) or 'nothing that is known'}")
    lines.append(
        f"  run        {run.id}, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.board_type}, release {run.release}"
    )
    lines.append(f"  reruns     {verdict.reruns} used")
    lines += [f"  state      {state}"] if (state := _state(verdict)) else []
    medium = f" --medium {verdict.params['medium']}" if "medium" in verdict.params else ""
    lines.append(
        f"  evidence   lab results show {run.id} --log{medium} --metric {verdict.metric}; lab report {run.id}"
    )
    return lines


def _state(verdict: Verdict) -> str:
    if verdict.review is not None:
        reason = f": {verdict.review.reason}" if verdict.review.reason else ""
        return f"{verdict.review.decision} by {verdict.review.by}{reason}"
    if verdict.muted is not None:
        return f"muted until {verdict.muted.until:%Y-%m-%d} by {verdict.muted.by}: {verdict.muted.reason}"
    return ""


def _counted(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(verdict.outcome for verdict in verdicts)
    needs = text.needs(verdicts)
    named = {"none": "unchanged", "no history": f"no history ({needs})"}
    parts = [f"{count} {named.get(outcome, outcome)}" for outcome, count in counts.most_common()]
    return f"{len(verdicts)} numbers: {', '.join(parts)}" if parts else "no numbers"
