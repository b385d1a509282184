"""`lab guide read` and `check`: performance guides as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.options import Database, Json
from lab.errors import ConfigurationError
from lab.guide import export, reading, rulebook, show
from lab.guide import sheet as sheets
from lab.guide.rulebook import Severity
from lab.guide.sheet import Sheet
from lab.shown import echo, echo_json, echo_text

app = typer.Typer(help="Performance guides: read, check, compare, write.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Guides, as RST or as rendered text.")]
Define = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        metavar="NAME=VALUE",
        help="Choose branches of `ifconfig`, or say what |NAME| stands for; may be repeated.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Show everything, not only the first of each kind.")]


@app.command()
def read(
    files: Files,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one cell a line.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Print only the numbers that no metric stands for.")
    ] = False,
    define: Define = None,
) -> None:
    """Read guides and print their cells.

    With --json one file gives one object and several give a list.
    """
    read_sheets, errors = read_all(files, define)
    if unknown:
        _print_unknown(read_sheets, as_json=as_json)
    elif as_json:
        objects = [export.guide(sheet) for sheet in read_sheets]
        print_json(objects[0] if len(files) == 1 and objects else objects)
    elif as_csv:
        echo_text(export.to_csv(read_sheets), end="")
    else:
        for sheet in read_sheets:
            _print(show.guide(sheet))
    finish(read_sheets, errors)


@app.command()
def check(
    files: Files,
    against: Annotated[Path | None, typer.Option(help="An older guide of the same boards.")] = None,
    as_json: Json = False,
    show_all: All = False,
    define: Define = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if there is an error.")] = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="Also hold each number against the releases before and after in the store."),
    ] = False,
    db: Database = None,
) -> None:
    """Find what is wrong in guides, with the right number where it is known."""
    older = sheets.of_guide(reading.read(against, defines_of(define))) if against else None
    read_sheets, errors = read_all(files, define)
    if history:
        read_sheets = _with_neighbours(read_sheets, db)
    found = [finding for sheet in read_sheets for finding in rulebook.run(sheet, older)]
    if as_json:
        print_json(export.findings(found))
    else:
        _print(show.findings(found, show_all=show_all))
    finish([], errors)  # what was not read is among the findings
    if exit_code and any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(1)


def _with_neighbours(read_sheets: Sequence[Sheet], db: str | None) -> list[Sheet]:
    from lab.guide import history, stored  # noqa: PLC0415 - the database takes a while to import

    with stored.open_existing(db) as store:
        return [history.with_neighbours(store, sheet) for sheet in read_sheets]


def parameter_of(text: str, option: str = "--param", example: str = "size=1mb") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"{option} {text}: expected NAME=VALUE, e.g. {option} {example}")
    return name, value


def defines_of(define: Sequence[str] | None) -> dict[str, str]:
    return dict(parameter_of(text, "--define", "CONFIG_part_variant=NAME") for text in define or [])


def _print_unknown(read_sheets: Sequence[Sheet], *, as_json: bool) -> None:
    if as_json:
        print_json({"unknown": [cell for sheet in read_sheets for cell in export.unknown_cells(sheet)]})
        return
    for sheet in read_sheets:
        _print(show.unknown(sheet))


def read_all(
    files: Iterable[Path], define: Sequence[str] | None = None
) -> tuple[list[Sheet], list[ConfigurationError]]:
    """Every guide that can be read, and why the others cannot; a file without a cell of results is none."""
    found, errors = [], []
    defines = defines_of(define)
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


def finish(read_sheets: Sequence[Sheet], errors: Sequence[ConfigurationError]) -> None:
    """Say what was not read and what was mended, one line a cause."""
    for sheet in read_sheets:
        for line in show.unread(sheet):
            echo(line, err=True)
    if errors:
        raise ConfigurationError("; ".join(str(error) for error in errors))


def _print(lines: Iterable[str]) -> None:
    echo(*lines)


def print_json(value: Any) -> None:
    echo_json(value, indent=1)
