"""The tables of failure classes, which mkdocs puts into docs/failures.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lab.failures import CHAPTERS, FailureClass

_HEAD: Final = ("| Recorded as | Meaning and remedy | Fault | Then |", "|---|---|---|---|")


def lines(classes: tuple[FailureClass, ...]) -> Iterator[str]:
    """The table of a chapter."""
    yield from _HEAD
    for each in classes:
        yield f"| {', '.join(f'`{name}`' for name in each.names)} | {each.meaning} | {each.fault} | {each.then} |"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the tables in place of their marks."""
    for chapter, classes in CHAPTERS.items():
        markdown = markdown.replace(f"<!-- failures: {chapter} -->", "\n".join(lines(classes)))
    return markdown
