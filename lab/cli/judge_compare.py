"""`lab judge compare`: a run's numbers beside those of the runs before, or of a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from lab.cli.judgearguments import Everything, number_of
from lab.cli.options import Database, Json, RunName
from lab.judge.baseline import JudgedNumber, JudgedRun, judge_run
from lab.judge.builds import remarks
from lab.judge.document import document
from lab.judge.verdicts import Verdict
from lab.results.formatting import label, number
from lab.results.snapshot import watch
from lab.results.store import open_store
from lab.shown import echo, echo_json, table

app = typer.Typer(help="Whether numbers moved, by how much, and what else moved with them.", no_args_is_help=True)


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
    """Compare a run with the last accepted runs of its board, or with a release; status 1: one is worse, and nobody accepted it."""
    with open_store(db, create=False) as store:
        run_id = number_of(store, run)
    with watch(db).snapshot() as snapshot:
        judged, notes = judge_run(snapshot, run_id, against), remarks(snapshot, run_id)
    order = list(Verdict)
    shown = [
        each
        for each in judged.numbers
        if everything or each.judgement.verdict not in {Verdict.NOISE, Verdict.NO_HISTORY}
    ]
    shown.sort(key=lambda each: order.index(each.judgement.verdict))
    if as_json:
        echo_json(document(judged, notes, shown))
    else:
        _print(judged, notes, shown)
    if judged.of(Verdict.REGRESSION) and not judged.is_accepted:
        raise typer.Exit(1)


def _print(judged: JudgedRun, notes: Sequence[str], shown: Sequence[JudgedNumber]) -> None:
    head = judged.head
    echo(
        f"run {head.id}: {head.kind} of {head.board} ({head.board_type}), release {head.release}, against {judged.against}"
    )
    echo(*(f"note: {note}" for note in notes))
    if shown:
        header = ["number", "was", "is", "unit", "change", "95 %", "runs", "verdict"]
        echo(*table(header, [_row(each) for each in shown], "<>><>>><"))
    counts = Counter(each.judgement.verdict for each in judged.numbers)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    echo(f"{len(judged.numbers)} numbers: {', '.join(parts)}" if parts else "no numbers")


def _row(each: JudgedNumber) -> list[str]:
    average, baseline, said = each.average, each.baseline, each.judgement
    between = "-" if said.low is None or said.high is None else f"{100 * said.low:+.1f} to {100 * said.high:+.1f} %"
    return [
        f"{average.metric.name} {label(average.params)}".strip(),
        "-" if baseline is None else number(baseline.value, baseline.uncertainty, average.metric),
        number(average.value, average.uncertainty, average.metric),
        average.metric.unit,
        "-" if said.effect is None else f"{100 * said.effect:+.1f} %",
        between,
        str(len(baseline.runs)) if baseline else "-",
        f"{said.verdict}: {said.reason}",
    ]
