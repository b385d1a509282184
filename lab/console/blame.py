"""Whose fault a failure is, once somebody has looked who else reads the port."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from lab.console.holders import PROC, shared
from lab.errors import BoardError, BoardlabError, LabTransientError, TestTransientError

# Faults of the lab that are read from what the console says.
_READ_FROM_THE_CONSOLE: Final = frozenset({"garbled", "wrong_medium", "mixed_boot"})


class SharedConsole(Protocol):
    """A console that knows who else reads it."""

    def blamed(self, error: BoardlabError) -> BoardlabError:
        """What a failure is, now that somebody looks."""
        ...


def blamed(error: BoardlabError, device: Path, ours: Collection[int] = (), proc: Path = PROC) -> BoardlabError:
    """`console_shared` where somebody else reads the port and the failure may come from missing bytes; else `error`."""
    heard = isinstance(error, BoardError | TestTransientError) or error.failure in _READ_FROM_THE_CONSOLE
    found = shared(device, ours, proc) if heard else None
    if found is None:
        return error
    return LabTransientError(f"{found}. What failed meanwhile: [{error.failure}] {error}", failure=found.failure)


@contextmanager
def fairly(console: SharedConsole) -> Iterator[None]:
    """Nobody else's reading of the console is blamed on the board.

    Raises:
        LabTransientError: somebody else reads it, and that may be why it failed.
    """
    try:
        yield
    except BoardlabError as error:
        found = console.blamed(error)
        if found is error:
            raise
        raise found from error
