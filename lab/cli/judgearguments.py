"""What the commands of `lab judge` take: the run, a date, the store."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Final

import typer

from lab.errors import ConfigurationError
from lab.results.records import LAST_ID
from lab.results.store import Store

LATEST: Final = "latest"

OfBoard = Annotated[str | None, typer.Option("--board", metavar="NAME", help="Of this board only.")]
Everything = Annotated[bool, typer.Option("--all", help="Also numbers of which there is nothing to say.")]


def number_of(store: Store, run: str) -> int:
    """The run that a person names by its number or as "latest".

    Raises:
        ConfigurationError: it is neither, or there are no runs.
    """
    if run == LATEST:
        runs = store.runs(1)
        if not runs:
            raise ConfigurationError(f"no runs yet in {store.url}; measure something first")
        return runs[0].id
    if not re.fullmatch(r"[0-9]{1,10}", run) or not 1 <= int(run) <= LAST_ID:
        raise ConfigurationError(f"no run {run!r}; give its number, as `lab results list` has it, or {LATEST}")
    return int(run)


def instant(text: str) -> dt.datetime:
    """A day (its beginning, UTC), an instant, or so many days ago (`7d`).

    Raises:
        ConfigurationError: it is none of them.
    """
    days = re.fullmatch(r"([0-9]{1,4})d", text)
    if days is not None:
        return dt.datetime.now(dt.UTC) - dt.timedelta(days=int(days[1]))
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is no date; write it like 2026-11-22, or 2026-11-22T06:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
