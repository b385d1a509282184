"""`lab guide read` and `check`: performance guides as files."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.options import Database, Json
from lab.errors import ConfigurationError
from lab.farm.runner import UNCONFIRMED
from lab.guide import measurements as sheets
from lab.guide.check.findings import load_rules, run_rules
from lab.guide.compare import comparison as comparing
from lab.guide.compare import trend
from lab.guide.compare.comparison import Earlier
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.guide.rulebook import Severity
from lab.guide.write import export, terminal
from lab.host.clock import utc_now
from lab.terminal import echo, echo_json, echo_text

if TYPE_CHECKING:
    from lab.guide.check.importer import Imported


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
    read_sheets, errors = read_all(files, define, sheets.require_numbers)
    if unknown and as_json:
        print_json({"unknown": [cell for sheet in read_sheets for cell in export.unknown_cells(sheet)]})
    elif unknown:
        for sheet in read_sheets:
            echo(*terminal.list_unknown(sheet))
    elif as_json:
        objects = [export.guide_document(sheet) for sheet in read_sheets]
        print_json(objects[0] if len(files) == 1 and objects else objects)
    elif as_csv:
        echo_text(export.to_csv(read_sheets), end="")
    else:
        for sheet in read_sheets:
            echo(*terminal.describe_guide(sheet))
    finish(read_sheets, errors)


@app.command()
def check(
    files: Files,
    against: Annotated[Path | None, typer.Option(help="An older guide of the same boards.")] = None,
    as_json: Json = False,
    show_all: All = False,
    define: Define = None,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 1 if there is an error, with 4 if nothing could be compared."),
    ] = False,
    history: Annotated[
        bool,
        typer.Option("--history", help="Also hold each number against the releases before and after in the store."),
    ] = False,
    db: Database = None,
) -> None:
    """Find wrong numbers in guides, with the right ones if known."""
    older = sheets.require_metrics(sheets.of_guide(reader.read(against, defines_of(define)))) if against else None
    read_sheets, errors = read_all(files, define)
    if history:
        from lab.guide.compare import stored_history  # noqa: PLC0415 - the database takes a while to import
        from lab.results.store import open_store  # noqa: PLC0415

        with open_store(db, create=False) as store:
            read_sheets = [stored_history.add_neighbours(store, sheet) for sheet in read_sheets]
    findings = [finding for sheet in read_sheets for finding in run_rules(sheet, older)]
    counts: list[tuple[MeasuredGuide, str, int]] = []
    for sheet in read_sheets:
        counts += [(sheet, str(against), len(_keys(sheet) & _keys(older)))] if older else []
        counts += [(sheet, "releases beside it", len(_keys(sheet) & sheet.neighbours.keys()))] if history else []
    if as_json and read_sheets:
        print_json(export.findings_document(findings))
    elif read_sheets:  # of no guide "nothing found" would be a verdict
        for sheet, name, count in counts:
            echo(f"{sheet.guide.path}: {count} of {len(_keys(sheet))} numbers are also in {name}")
        echo(*terminal.list_findings(findings, show_all=show_all))
    finish([], errors)  # what was not read is among the findings
    if exit_code and any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(1)
    if exit_code and not all(count for _, _, count in counts):
        raise typer.Exit(UNCONFIRMED)


def _keys(sheet: MeasuredGuide) -> set[tuple[str | None, object]]:
    """The boards and keys of a guide's numbers."""
    return {(reading.board, reading.key) for reading in sheet.of(*sheet.by_metric)}


@app.command()
def rules(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RULE]…", help="Default: the list of all.")] = None,
) -> None:
    """List the rules of `lab guide check`, or explain some."""
    rule_of_id = {rule.id: rule for rule in load_rules()}
    for name in names or ():
        if name not in rule_of_id:
            raise ConfigurationError(f"there is no rule {name!r}; `lab guide rules` lists them")
    if names:
        echo(*list(terminal.explain_rules([rule_of_id[name] for name in names]))[1:])
    else:
        echo(*(f"{rule.severity:8} {rule.id:20} {rule.title}" for rule in rule_of_id.values()))


def parameter_of(text: str, option: str = "--param", example: str = "size=1mb") -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"{option} {text}: expected NAME=VALUE, e.g. {option} {example}")
    return name, value


def defines_of(define: Sequence[str] | None) -> dict[str, str]:
    return dict(parameter_of(text, "--define", "CONFIG_part_variant=NAME") for text in define or [])


def read_all(
    files: Iterable[Path],
    define: Sequence[str] | None = None,
    require: Callable[[MeasuredGuide], MeasuredGuide] = sheets.require_metrics,
) -> tuple[list[MeasuredGuide], list[ConfigurationError]]:
    """Read all guides; collect the errors of unreadable ones.

    Args:
        require: raises the error of a guide that does not fit the command.
    """
    guides, errors = [], []
    defines = defines_of(define)
    for path in files:
        try:
            guides.append(require(sheets.of_guide(reader.read(path, defines))))
        except ConfigurationError as error:
            errors.append(error)
    return guides, errors


def finish(read_sheets: Sequence[MeasuredGuide], errors: Sequence[ConfigurationError]) -> None:
    """Print the unread and repaired parts by cause."""
    for sheet in read_sheets:
        for line in terminal.list_unread(sheet):
            echo(line, err=True)
    if errors:
        raise ConfigurationError("; ".join(str(error) for error in errors))


def print_json(value: Any) -> None:
    echo_json(value, indent=1)


_SUFFIXES: Final = frozenset({".rst", ".txt", ".html", ".htm", ".md", ".tsv"})


@app.command()
def compare(
    guides: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD… NEW",
            help="Guides, each a file or a release in the store: the newer one, after the older ones.",
        ),
    ],
    *,
    board: Annotated[str | None, typer.Option(help="Only this board, as the headers spell it.")] = None,
    db: Database = None,
    as_html: Annotated[bool, typer.Option("--html", help="Print a page that needs no network.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment in CI.")] = False,
    as_json: Json = False,
    show_all: All = False,
) -> None:
    """Compare a guide with the one before, cause by cause.

    Each cause is one line, and noise is left out.

    Guides before these two, and the store's earlier releases, show the usual scatter of a number and its earlier
    values.
    """
    if len(guides) < 2:
        raise ConfigurationError("compare: name two guides at least, the older one first")
    sheets_of = [_guide(name, db) for name in guides]
    *before, old, new = sheets_of
    boards = sorted({b for sheet in (old, new) for b in sheet.guide.boards})
    if board is not None and board not in boards:
        raise ConfigurationError(f"no table is of board {board!r}; the guides have: {', '.join(boards)}")
    earlier = _earlier(before, guides[-2], old, [board] if board else boards, db)
    comparison = comparing.compare(old, new, board, earlier)
    if as_json:
        echo_json(export.comparison_document(comparison), indent=1)
    elif as_html or as_markdown:
        from lab.guide.write import comparison_page  # noqa: PLC0415 - templates take a while to import

        echo_text(comparison_page.html(comparison) if as_html else comparison_page.markdown(comparison), end="")
    else:
        echo(*terminal.list_changes(comparison, show_all=show_all))
    finish(sheets_of, [])


def _earlier(
    before: Sequence[MeasuredGuide], name: str, old: MeasuredGuide, boards: Sequence[str], db: str | None
) -> Earlier:
    """Releases before the older guide: the given ones, else the store's.

    The store counts if the guide is from it or if --db names one.
    """
    if before or (_is_file(name) and db is None):
        return comparing.earlier_of(before)
    from lab.guide.compare import stored_history  # noqa: PLC0415 - the database takes a while to import

    release = old.guide.kernel_release
    if release is None:
        raise ConfigurationError(
            f"{old.guide.path}: neither its title nor its name has the release, so the releases before it in the "
            "store are unknown; rename it, e.g. am62x-11.01.rst, or leave --db out"
        )
    return stored_history.earlier_in_store(db, boards, release)


def _is_file(name: str) -> bool:
    path = Path(name)
    return path.is_file() or path.suffix in _SUFFIXES or len(path.parts) > 1


def _guide(name: str, db: str | None) -> MeasuredGuide:
    """The guide in a file, or of a release in the store."""
    if _is_file(name):
        return sheets.require_metrics(sheets.of_guide(reader.read(Path(name))))
    from lab.guide.write import stored_release  # noqa: PLC0415 - the database takes a while to import
    from lab.results.store import open_store  # noqa: PLC0415

    with open_store(db, create=False) as store:
        return stored_release.load_sheet(store, name)


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
    """Show one board's metric over several releases.

    They are those of guides, or of the store.
    """
    params = dict(parameter_of(text) for text in only or [])
    read_sheets, errors = read_all(files or [])
    if errors and not read_sheets:
        finish([], errors)
    if files:
        trends = trend.trends_of_guides(read_sheets, metric, board, params)
    else:
        from lab.guide.compare import stored_history  # noqa: PLC0415 - the database takes a while to import
        from lab.results.store import open_store  # noqa: PLC0415

        with open_store(db, create=False) as store:
            trends = stored_history.trends_in_store(store, metric, board, params)
    if as_json:
        print_json(export.trends_document(trends))
    else:
        echo(*terminal.draw_trends(trends))
    if svg is not None:
        from lab import figures  # noqa: PLC0415 - templates take a while to import
        from lab.guide.write.figures import draw_trends  # noqa: PLC0415

        figures.write(svg, draw_trends(trends), "--svg")
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
    """Import guides into the store as published measurements.

    The files are their evidence.

    A guide that cannot be imported does not stop the others.
    """
    from lab.guide.check import importer as guide_importer  # noqa: PLC0415 - the database takes a while to import
    from lab.results.store import open_store  # noqa: PLC0415

    errors = []
    with open_store(db) as store:
        importer = guide_importer.Importer(store)
        for guide in guide_importer.prepare_all(files, release, board, utc_now(), defines_of(define)):
            if isinstance(guide, ConfigurationError):
                errors.append(guide)
            else:
                _print_imported(guide.path, importer.add(guide))
                for name in guide.boards_without_metrics:
                    echo(f"{guide.path}: no number of {name} stands for a metric; the board was left out", err=True)
    finish([], errors)


def _print_imported(path: Path, boards: Sequence[Imported]) -> None:
    for done in boards:
        what = f"{done.samples} number{'s' * (done.samples != 1)}" if done.is_new else "imported already"
        of_board = done.board + _found_in(done.board_source)
        echo(f"run {done.run_id}: {of_board}, release {done.release}{_found_in(done.release_source)}: {what}")
    if boards[0].unattributed:
        echo(f"{path}: {boards[0].unattributed} cells of short rows belong to no board and were left out", err=True)
    if boards[0].cells_without_board:
        echo(
            f"{path}: {boards[0].cells_without_board} cells of tables without a board were left out; say whose they "
            "are with --board",
            err=True,
        )


def _found_in(source: str) -> str:
    """Place of a found name, unless it is obvious."""
    return "" if source in {"given", "table"} else f" (by the {source})"


class Format(enum.StrEnum):
    """Output form of `write`."""

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
    with_errors: Annotated[
        bool, typer.Option("--with-errors", help="Print numbers that a rule calls an error, too, with a mark.")
    ] = False,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the guide.")] = Path(),
    reports: Annotated[
        str,
        typer.Option(
            metavar="URL", envvar="LAB_REPORTS", help="Address of a run's report, with {run}: numbers link to it."
        ),
    ] = "",
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Write a release's performance guide from the store.

    It is written as RST and as one HTML file.
    """
    from lab.guide.write import writer  # noqa: PLC0415 - the database and templates take a while to import
    from lab.judge.text import EvidenceLinks  # noqa: PLC0415
    from lab.results.store import open_store  # noqa: PLC0415

    run_page = EvidenceLinks(reports).address
    with open_store(db, create=False) as store:
        if view not in list(writer.GuideView):
            raise ConfigurationError(f"--view {view}: there are: {', '.join(writer.GuideView)}")
        forms = [form] if form else list(Format)
        written = writer.write(
            store,
            release,
            board or [],
            folder,
            forms,
            writer.GuideView(view),
            with_errors=with_errors,
            run_page=run_page,
            say=lambda text: echo(text, err=True),
        )
        if as_json:
            echo_json({"files": [str(path.absolute()) for path in written]})
            return
        for path in written:
            echo(str(path))
