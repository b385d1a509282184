"""`lab guide …`: read, check, compare, import and write performance guides."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.errors import ConfigurationError
from lab.guide import compare as comparing
from lab.guide import export, reading, rulebook, show, trend
from lab.guide import sheet as sheets
from lab.guide.rulebook import Severity
from lab.guide.sheet import Sheet
from lab.host.clock import utc_now
from lab.shown import echo, echo_json, echo_text

app = typer.Typer(help="Performance guides: read, check, compare, write.", no_args_is_help=True)

_Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Guides, as RST or as rendered text.")]
_SUFFIXES = frozenset({".rst", ".txt", ".html", ".htm", ".md", ".tsv"})
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="A path, sqlite:///PATH or postgresql://… (default: $LAB_DB, else ~/.local/share/boardlab).",
    ),
]
_Define = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        metavar="NAME=VALUE",
        help="Choose branches of `ifconfig`, or say what |NAME| stands for; may be repeated.",
    ),
]
_All = Annotated[bool, typer.Option("--all", help="Show everything, not only the first of each kind.")]


@app.command()
def read(
    files: _Files,
    as_json: _Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one cell a line.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Print only the numbers that no metric stands for.")
    ] = False,
    define: _Define = None,
) -> None:
    """Read guides and print their cells.

    With --json one file gives one object and several give a list.
    """
    read_sheets, errors = _read(files, define)
    if unknown:
        _print_unknown(read_sheets, as_json=as_json)
    elif as_json:
        objects = [export.guide(sheet) for sheet in read_sheets]
        _print_json(objects[0] if len(files) == 1 and objects else objects)
    elif as_csv:
        echo_text(export.to_csv(read_sheets), end="")
    else:
        for sheet in read_sheets:
            _print(show.guide(sheet))
    _finish(read_sheets, errors)


@app.command()
def check(
    files: _Files,
    against: Annotated[Path | None, typer.Option(help="An older guide of the same boards.")] = None,
    as_json: _Json = False,
    show_all: _All = False,
    define: _Define = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if there is an error.")] = False,
) -> None:
    """Find what is wrong in guides, with the right number where it is known."""
    older = sheets.of_guide(reading.read(against, _defines(define))) if against else None
    read_sheets, errors = _read(files, define)
    found = [finding for sheet in read_sheets for finding in rulebook.run(sheet, older)]
    if as_json:
        _print_json(export.findings(found))
    else:
        _print(show.findings(found, show_all=show_all))
    _finish([], errors)  # what was not read is among the findings
    if exit_code and any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(1)


@app.command()
def compare(
    old: Annotated[str, typer.Argument(help="The older guide: a file, or a release in the store.")],
    new: Annotated[str, typer.Argument(help="The newer guide: a file, or a release in the store.")],
    *,
    board: Annotated[str | None, typer.Option(help="Only this board, as the headers spell it.")] = None,
    db: Database = None,
    as_json: _Json = False,
    show_all: _All = False,
) -> None:
    """Compare two guides: what changed, in which direction, and whether it is more than noise."""
    both = [_guide(old, db), _guide(new, db)]
    known = sorted({b for sheet in both for b in sheet.guide.boards})
    if board is not None and board not in known:
        raise ConfigurationError(f"no table is of board {board!r}; the guides have: {', '.join(known)}")
    found = comparing.compare(both[0], both[1], board)
    if as_json:
        _print_json(export.comparison(found))
    else:
        _print(show.comparison(found, show_all=show_all))
    _finish(both, [])


def _guide(name: str, db: str | None) -> Sheet:
    """The guide in a file, or of a release in the store."""
    path = Path(name)
    if path.is_file() or path.suffix in _SUFFIXES or len(path.parts) > 1:
        return sheets.of_guide(reading.read(path))
    from lab.guide import stored  # noqa: PLC0415 - the database takes a while to import

    with stored.open_existing(db) as store:
        return stored.sheet(store, name)


@app.command("trend")
def trend_command(
    metric: Annotated[str, typer.Argument(help="A metric of boardlab, e.g. boot.time; `read --json` names them.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE…]", help="Guides; without any: the store.")
    ] = None,
    *,
    board: Annotated[str, typer.Option(help="The board, as the headers spell it.")],
    only: Annotated[
        list[str] | None, typer.Option("--param", help="Only series with this parameter, NAME=VALUE.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Also draw the series into this file.")] = None,
    db: Database = None,
    as_json: _Json = False,
) -> None:
    """Show a metric of one board over several releases, of guides or of the store."""
    wanted = dict(_parameter(text) for text in only or [])
    read_sheets, errors = _read(files or [])
    if files:
        found = trend.of_guides(read_sheets, metric, board, wanted)
    else:
        from lab.guide import stored  # noqa: PLC0415 - the database takes a while to import

        with stored.open_existing(db) as store:
            releases = stored.history(store, board)
        found = trend.of_releases(releases, metric, board, wanted)
    if as_json:
        _print_json(export.trends(found))
    else:
        _print(show.trend(found))
    if svg is not None:
        from lab.guide import figures  # noqa: PLC0415 - matplotlib takes a second to import

        figures.trends(found, svg)
    _finish(read_sheets, errors)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="A guide.")],
    *,
    release: Annotated[
        str | None,
        typer.Option(help="The release that its numbers are of, e.g. 11.01. Default: the one that it names."),
    ] = None,
    board: Annotated[
        str | None, typer.Option(help="Board of the tables that name none. Default: the device that the guide names.")
    ] = None,
    define: _Define = None,
    db: Database = None,
) -> None:
    """Put a guide's numbers into the store as published measurements, with the file as their evidence."""
    from lab.guide import importing  # noqa: PLC0415 - the database takes a while to import
    from lab.results.store import open_store  # noqa: PLC0415

    with open_store(db) as store:
        for done in importing.import_guide(store, file, release, board, utc_now(), _defines(define)):
            what = f"{done.samples} number{'s' * (done.samples != 1)}" if done.is_new else "imported already"
            of_board = done.board + _found_in(done.board_source)
            echo(f"run {done.run_id}: {of_board}, release {done.release}{_found_in(done.release_source)}: {what}")
        if done.unattributed:
            echo(f"{file}: {done.unattributed} cells of short rows belong to no board and were left out", err=True)
        if done.nameless:
            echo(
                f"{file}: {done.nameless} cells of tables without a board were left out; say whose they are with --board",
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
        for path in writing.write(store, release, board or [], folder, forms, writing.View(view)):
            echo(str(path))


def _parameter(text: str, option: str = "--param", example: str = "size=1mb") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"{option} {text}: expected NAME=VALUE, e.g. {option} {example}")
    return name, value


def _defines(define: Sequence[str] | None) -> dict[str, str]:
    return dict(_parameter(text, "--define", "CONFIG_part_variant=NAME") for text in define or [])


def _print_unknown(read_sheets: Sequence[Sheet], *, as_json: bool) -> None:
    if as_json:
        _print_json({"unknown": [cell for sheet in read_sheets for cell in export.unknown_cells(sheet)]})
        return
    for sheet in read_sheets:
        _print(show.unknown(sheet))


def _read(files: Iterable[Path], define: Sequence[str] | None = None) -> tuple[list[Sheet], list[ConfigurationError]]:
    """Every guide that can be read, and why the others cannot; a file without a cell of results is none."""
    found, errors = [], []
    defines = _defines(define)
    for path in files:
        try:
            found.append(_with_numbers(sheets.of_guide(reading.read(path, defines))))
        except ConfigurationError as error:
            errors.append(error)
    return found, errors


def _with_numbers(sheet: Sheet) -> Sheet:
    if not any(r.number is not None for r in sheet.readings):
        guide = sheet.guide
        raise ConfigurationError(
            f"{guide.path}: read as {guide.format}, its {len(guide.tables)} tables have no number; is this the guide's source, "
            f"or a page of it?{_first_unread(sheet)}"
        )
    return sheet


def _first_unread(sheet: Sheet) -> str:
    return f" Line {sheet.guide.unread[0].line}: {sheet.guide.unread[0].reason}" if sheet.guide.unread else ""


def _finish(read_sheets: Sequence[Sheet], errors: Sequence[ConfigurationError]) -> None:
    """Say what was not read and what was mended, one line a cause."""
    for sheet in read_sheets:
        for line in show.unread(sheet):
            echo(line, err=True)
    if errors:
        raise ConfigurationError("; ".join(str(error) for error in errors))


def _print(lines: Iterable[str]) -> None:
    echo(*lines)


def _print_json(value: Any) -> None:
    echo_json(value, indent=1)
