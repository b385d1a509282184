"""`lab console check`: does a board type fit the logs of a release?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab import boards
from lab.cli.options import Json
from lab.run.check import verdict as check_verdict
from lab.run.check.findings import examine, read
from lab.run.check.verdict import Fit, judge
from lab.shown import echo, echo_json

NOT_ALL_FIT = 1
app = typer.Typer()


@app.command()
def check(
    board_type: Annotated[str, typer.Argument(metavar="TYPE", help="The board type, or its .toml file.")],
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Console logs, one boot each; no stamps.")],
    *,
    as_json: Json = False,
) -> None:
    """Read logs of boots with a board type: what it finds in them, what it does not, and whether it fits.

    Exits with 0 when it fits all logs, with 1 when it fits one only in part or not at all, with 2 when a log or the type
    cannot be read.
    """
    board = boards.load_file(Path(board_type)) if board_type.endswith(".toml") else boards.load(board_type)
    found = [examine(read(path, board), board) for path in logs]
    verdicts = [judge(findings) for findings in found]
    pairs = list(zip(found, verdicts, strict=True))
    if as_json:
        echo_json([check_verdict.document(findings, verdict) for findings, verdict in pairs])
    else:
        for number, (findings, verdict) in enumerate(pairs):
            echo(*([""] if number else []), *check_verdict.lines(findings, verdict))
    if any(verdict.fit is not Fit.WHOLE for verdict in verdicts):
        raise typer.Exit(NOT_ALL_FIT)
