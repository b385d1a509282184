"""`lab guide import`, `trend` and `write`: performance guides and the store."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.guide import Define, Files, defines_of, finish, parameter_of, print_json, read_all
from lab.cli.options import Database, Json
from lab.errors import ConfigurationError
from lab.guide import export, show, trend
from lab.host.clock import utc_now
from lab.shown import echo

if TYPE_CHECKING:
    from lab.guide.importing import Imported

app = typer.Typer(help="Performance guides: read, check, compare, write.", no_args_is_help=True)


@app.command("trend")
def trend_command(
    metric: Annotated[str, typer.Argument(help="A metric of boardlab, e.g. boot.time; `read --json` names them.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", help="Guides; without any: the store.")
    ] = None,
    *,
    board: Annotated[
        str, typer.Option(help="The board, as the headers spell it; or the name of a product, for all its boards.")
    ],
    only: Annotated[
        list[str] | None, typer.Option("--param", help="Only series with this parameter, NAME=VALUE.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw the series into this file.")] = None,
    db: Database = None,
    as_json: Json = False,
) -> None:
    """Show a metric of one board over several releases, of guides or of the store."""
    wanted = dict(parameter_of(text) for text in only or [])
    read_sheets, errors = read_all(files or [])
    if files:
        found = trend.of_guides(read_sheets, metric, board, wanted)
    else:
        from lab.guide import history, stored  # noqa: PLC0415 - the database takes a while to import

        with stored.open_existing(db) as store:
            found = history.trends(store, metric, board, wanted)
    if as_json:
        print_json(export.trends(found))
    else:
        echo(*show.trend(found))
    if svg is not None:
        from lab.guide import trend_plot  # noqa: PLC0415 - templates take a while to import

        trend_plot.write(found, svg)
    finish(read_sheets, errors)


@app.command("import")
def import_command(
    files: Files,
    *,
    release: Annotated[
        str | None,
        typer.Option(help="The release that its numbers are of, e.g. 11.01. Default: the one that it names."),
    ] = None,
    board: Annotated[
        str | None, typer.Option(help="Board of the tables that name none. Default: the device that the guide names.")
    ] = None,
    define: Define = None,
    db: Database = None,
) -> None:
    """Put guides' numbers into the store as published measurements, with the files as their evidence.

    A guide that cannot be imported does not stop the others.
    """
    from lab.guide import importing  # noqa: PLC0415 - the database takes a while to import
    from lab.results.store import open_store  # noqa: PLC0415

    errors = []
    with open_store(db) as store:
        importer = importing.Importer(store)
        for guide in importing.prepared(files, release, board, utc_now(), defines_of(define)):
            if isinstance(guide, ConfigurationError):
                errors.append(guide)
            else:
                _print_imported(guide.path, importer.add(guide))
    finish([], errors)


def _print_imported(path: Path, boards: Sequence[Imported]) -> None:
    for done in boards:
        what = f"{done.samples} number{'s' * (done.samples != 1)}" if done.is_new else "imported already"
        of_board = done.board + _found_in(done.board_source)
        echo(f"run {done.run_id}: {of_board}, release {done.release}{_found_in(done.release_source)}: {what}")
    if boards[0].unattributed:
        echo(f"{path}: {boards[0].unattributed} cells of short rows belong to no board and were left out", err=True)
    if boards[0].nameless:
        echo(
            f"{path}: {boards[0].nameless} cells of tables without a board were left out; say whose they are with --board",
            err=True,
        )


def _found_in(source: str) -> str:
    """Where a name was found, unless that goes without saying."""
    return "" if source in {"given", "table"} else f" (by the {source})"


class Format(enum.StrEnum):
    """What `write` writes."""

    RST = "rst"
    HTML = "html"


@app.command()
def write(
    *,
    release: Annotated[str, typer.Option(help="A release in the store.")],
    board: Annotated[
        list[str] | None, typer.Option(help="A board; may be repeated. Default: all with numbers.")
    ] = None,
    form: Annotated[Format | None, typer.Option("--format", help="Default: both.")] = None,
    view: Annotated[
        str, typer.Option(help="corrected: as each metric is defined; vendor: as the vendor's guides form it.")
    ] = "corrected",
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where the files go.")] = Path(),
    db: Database = None,
) -> None:
    """Write the performance guide of a release from the store, as RST and as one HTML file."""
    from lab.guide import stored, writing  # noqa: PLC0415 - the database and matplotlib take a while to import

    with stored.open_existing(db) as store:
        if view not in list(writing.View):
            raise ConfigurationError(f"--view {view}: there are: {', '.join(writing.View)}")
        forms = [form] if form else list(Format)
        for path in writing.write(
            store, release, board or [], folder, forms, writing.View(view), lambda text: echo(text, err=True)
        ):
            echo(str(path))
