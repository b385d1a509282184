"""The list in docs/adding-a-board.md of patterns without a source: `python tools/pattern_table.py` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from lab import boards
from lab.boards import Pattern

HEAD = "| Board type | Where | Pattern | What is known |\n|---|---|---|---|\n"


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


def main() -> None:
    """Print the table."""
    sys.stdout.write(HEAD + "".join(f"{line}\n" for line in lines()))


if __name__ == "__main__":
    main()
