"""The catalogue of all failure classes: meaning, fault, and the next step of a run.

mkdocs makes the tables of docs/failures.md from it; the exporter counts each class from 0.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

OTHER: Final = "other"  # a class that is not in the catalogue, e.g. of a board type or a driver of somebody's own
UNNAMED: Final = ("board", "lab", "test", "configuration", "error")  # by whose fault, see lab.errors
# labgrid's drivers, see lab.drivers.guarded_calls.
DRIVERS: Final = ("strap", "wake_pin", "power", "console", "rails", "tester", "shell", "uboot", "multiplexer")
ENDS: Final = ("timeout", "unreachable", "failed", "missing", "refused", "broken")


@frozen
class FailureClass:
    """Failure classes with one explanation.

    Attributes:
        names: as stored with an attempt, e.g. "hang_kernel".
        meaning: with the remedy, as Markdown of docs/failures.md.
        fault: the party at fault, see lab.errors.
        then: the run's next step.
    """

    names: tuple[str, ...]
    meaning: str
    fault: str
    then: str


CHAPTERS: Final = {
    chapter: tuple(FailureClass(tuple(names.split()), *row) for names, row in rows.items())
    for chapter, rows in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
BOOT_FAILURES: Final = tuple(name for row in CHAPTERS["Boot"] for name in row.names)  # seen on a console
CATALOGUE: Final = frozenset(
    (
        *(name for rows in CHAPTERS.values() for row in rows for name in row.names),
        *UNNAMED,
        *(f"{driver}_{end}" for driver, end in itertools.product(DRIVERS, ENDS)),
        OTHER,
    )
)


def explain(name: str) -> Iterator[str]:
    """Explain a class as plain text; nothing for one outside the catalogue."""
    for failure_class in itertools.chain.from_iterable(CHAPTERS.values()):
        if name in failure_class.names:
            meaning = re.sub(r"\[([^]]*)\]\(([^)]*)\)", r"\1: docs/\2", failure_class.meaning)
            yield f"{', '.join(failure_class.names)}: {meaning.replace('`', '')}"
            yield f"  fault: {failure_class.fault}; then: {failure_class.then}"
            return
    if name in CATALOGUE - {OTHER}:
        yield (
            f"{name}: docs/lab-failures.md"
            if "_" in name
            else f"{name}: a failure without a class; its message says more"
        )
