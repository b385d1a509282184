"""Does any mutation of a good boot's recording give a wrong number?

    python tools/torture.py FILE

A mutation changes what happened, to the board, the line or the host, and so also what number would be right. The recognition of a live boot
reads each: its number must be right within its ±, flagged, or refused.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torture_campaign as campaign
import typer
from torture_boot import GoodBoot, good_boot
from torture_campaign import Case, Outcome, rewatcher, try_case
from torture_damage import KINDS, mutate

from lab import boards
from lab.boards import BoardType
from lab.cli.options import Json
from lab.console.recording import Recording, encode, paths
from lab.console.replay import guess_board
from lab.errors import BoardlabError, ConfigurationError
from lab.terminal import echo, echo_json, tell

FOUND_WRONG = 1
MAX_SEED = 1_000_000_000
app = typer.Typer()


@app.command()
def torture(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The .log or the .idx of a good boot's recording.")],
    *,
    board: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="The board type, or its .toml file (default: the one that fits best)."),
    ] = None,
    medium: Annotated[
        str | None, typer.Option(metavar="MEDIUM", help="What it booted from (default: what its lines say).")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help=f"Only this kind; may be repeated: {', '.join(KINDS)}.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Cases of each kind.")] = 2000,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MAX_SEED, metavar="N", help="Seed of the first case (default: random).")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="KIND:SEED", help="Only this case, with all details.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="PATH", help="With --only: write its recording as PATH.log and PATH.idx.")
    ] = None,
    processes: Annotated[int, typer.Option(min=0, metavar="N", help="Processes (default: one per processor).")] = 0,
    as_json: Json = False,
) -> None:
    """Mutate a good boot's recording at random, and look for a number that is wrong and not flagged.

    Exits with 1 when there is one.
    """
    kinds = _kinds(kind)
    if save is not None and only is None:
        raise ConfigurationError("--save needs --only KIND:SEED: it writes the recording of one case")
    recording = Recording.open(file)
    boot = good_boot(recording, _board(recording, board), medium)
    if only is not None:
        cases = [_one(boot, recording, only, save)]
        first = cases[0].seed
        said = campaign.case_lines(cases[0])
    else:
        first = secrets.randbelow(MAX_SEED) if seed is None else seed
        cases = _all(boot, campaign.lots(kinds, count, first), processes)
        said = campaign.lines(boot, cases, first)
    found = campaign.case_document(cases[0]) if only else campaign.document(boot, cases, first)
    if as_json:
        echo_json(found)
    else:
        echo(*said)
    if any(case.outcome is Outcome.WRONG for case in cases):
        raise typer.Exit(FOUND_WRONG)


def _board(recording: Recording, named: str | None) -> BoardType:
    if named is None:
        return guess_board(recording, [boards.load(name) for name in boards.names()])
    return boards.load_file(Path(named)) if named.endswith(".toml") else boards.load(named)


def _kinds(wanted: list[str] | None) -> list[str]:
    for kind in wanted or []:
        if kind not in KINDS:
            raise ConfigurationError(f"--kind {kind}: no such kind; there are: {', '.join(KINDS)}")
    return list(dict.fromkeys(wanted or KINDS))


def _all(boot: GoodBoot, todo: list[campaign.Lot], processes: int) -> list[Case]:
    total = sum(len(lot.seeds) for lot in todo)
    with typer.progressbar(length=total, label="torture", file=sys.stderr) as bar:
        return campaign.run(boot, todo, processes, bar.update)


def _one(boot: GoodBoot, recording: Recording, only: str, save: Path | None) -> Case:
    match = re.fullmatch(r"(\w+):(\d{1,18})", only)
    if match is None or match[1] not in KINDS:
        raise ConfigurationError(
            f"--only {only}: expected KIND:SEED, e.g. splice:17; the kinds are: {', '.join(KINDS)}"
        )
    kind, seed = match[1], int(match[2])
    if save is not None:
        for path, content in zip(paths(save), encode(recording.meta, mutate(boot, kind, seed).events), strict=True):
            _write(path, content)
    return try_case(boot, rewatcher(boot), kind, seed)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"--save: {path} cannot be written: {error.strerror}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code: 1: a number is wrong, 2: a wrong option or file."""
    try:
        app(args=arguments, prog_name="torture.py")
    except BoardlabError as error:
        tell(error)
        return 2
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
