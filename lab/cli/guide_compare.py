"""`lab guide compare`: what changed between two guides or releases, one cause a line; also as a page, and as a comment for CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.guide import All, finish
from lab.cli.options import Database, Json
from lab.errors import ConfigurationError
from lab.guide import compare as comparing
from lab.guide import compare as earlier_guides
from lab.guide import export, reading, show
from lab.guide import sheet as sheets
from lab.guide.compare import Earlier
from lab.guide.sheet import Sheet
from lab.shown import echo, echo_json, echo_text

app = typer.Typer(help="Performance guides: read, check, compare, write.", no_args_is_help=True)

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
    """Compare a guide with the one before: what changed, one cause a line, and whether it is more than noise.

    Guides before these two, and the store's earlier releases, say how much a number moves by itself, and where it was before.
    """
    if len(guides) < 2:
        raise ConfigurationError("compare: name two guides at least, the older one first")
    sheets_of = [_guide(name, db) for name in guides]
    *before, old, new = sheets_of
    known = sorted({b for sheet in (old, new) for b in sheet.guide.boards})
    if board is not None and board not in known:
        raise ConfigurationError(f"no table is of board {board!r}; the guides have: {', '.join(known)}")
    earlier = _earlier(before, guides[-2], old, [board] if board else known, db)
    found = comparing.compare(old, new, board, earlier)
    if as_json:
        echo_json(export.document(found), indent=1)
    elif as_html or as_markdown:
        from lab.guide import change_page  # noqa: PLC0415 - templates take a while to import

        echo_text(change_page.html(found) if as_html else change_page.markdown(found), end="")
    else:
        echo(*show.comparison(found, show_all=show_all))
    finish(sheets_of, [])


def _earlier(before: Sequence[Sheet], name: str, old: Sheet, boards: Sequence[str], db: str | None) -> Earlier:
    """The releases before the older guide: those that are given, else the store's, if the guide is of the store or --db says which."""
    if before or (_is_file(name) and db is None):
        return earlier_guides.of_sheets(before)
    from lab.guide import stored_earlier  # noqa: PLC0415 - the database takes a while to import

    release = old.guide.kernel_release
    if release is None:
        raise ConfigurationError(
            f"{old.guide.path}: neither its title nor its name tells the release, so nobody knows which releases of the store "
            "come before it; rename it, e.g. am62x-11.01.rst, or leave --db out"
        )
    return stored_earlier.of_store(db, boards, release)


def _is_file(name: str) -> bool:
    path = Path(name)
    return path.is_file() or path.suffix in _SUFFIXES or len(path.parts) > 1


def _guide(name: str, db: str | None) -> Sheet:
    """The guide in a file, or of a release in the store."""
    if _is_file(name):
        return sheets.of_guide(reading.read(Path(name)))
    from lab.guide import stored  # noqa: PLC0415 - the database takes a while to import

    with stored.open_existing(db) as store:
        return stored.sheet(store, name)
