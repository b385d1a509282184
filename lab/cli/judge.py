"""`lab judge …`: whether numbers moved."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from lab.errors import ConfigurationError
from lab.judge.replay import replay as verdicts
from lab.shown import echo_text

app = typer.Typer(help="Whether numbers moved, by how much, and what else moved with them.", no_args_is_help=True)


@app.command("replay")
def replay_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Histories as JSON lines, also .gz; - is stdin.")],
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="A line for every run, also where nothing changed.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
) -> None:
    """Judge histories run by run, as if each run had just ended; prints verdicts as JSON lines."""
    with _opened(file) as lines:
        for verdict in verdicts(lines, "stdin" if file == "-" else file, everything=everything, jobs=jobs):
            echo_text(verdict)


@contextmanager
def _opened(name: str) -> Iterator[Iterator[str]]:
    try:
        if name == "-":
            yield iter(sys.stdin)
        elif name.endswith(".gz"):
            with gzip.open(name, "rt", encoding="utf-8") as lines:
                yield iter(lines)
        else:
            with Path(name).open(encoding="utf-8") as lines:
                yield iter(lines)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {name}: {error.strerror or error}; name a file of JSON lines, or -"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"cannot read {name}: it is no UTF-8 text ({error.reason}); name a file of JSON lines"
        ) from error
