"""The table of patterns without a source, which mkdocs puts into docs/adding-a-board.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lab import boards
from lab.boards import Pattern

_MARK: Final = "<!-- the patterns -->"
_HEAD: Final = "| Board type | Where | Pattern | Source |\n|---|---|---|---|\n"


def assumed() -> dict[Pattern, list[str]]:
    """Each pattern that is from nowhere, or a part of which is, and the board types that have it."""
    found: dict[Pattern, list[str]] = {}
    for name in boards.names():
        for pattern in boards.patterns(boards.load(name)):
            if pattern.assumed:
                found.setdefault(pattern, []).append(name)
    return found


def lines() -> Iterator[str]:
    """The table's rows."""
    for pattern, names in assumed().items():
        types = "all" if names == boards.names() else ", ".join(f"`{name}`" for name in names)
        text = pattern.text.replace("|", "\\|")
        yield f"| {types} | `{pattern.where}` | `{text}` | {pattern.reference or 'nothing'} |"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the table in place of its mark."""
    return markdown.replace(_MARK, _HEAD + "\n".join(lines())) if _MARK in markdown else markdown
