"""The error tree: whose fault, and whether a retry may help.

    BoardlabError
    ├── BoardError                the device under test
    │   ├── BoardTransientError       may pass: retry after a power cycle
    │   └── BoardStableError          will happen again: stop and report
    ├── LabError                  what surrounds the board: power switch, adapters, servers, disk
    │   ├── LabTransientError
    │   └── LabStableError
    ├── TestError                 the test asked for something impossible or misread an answer
    │   ├── TestTransientError
    │   └── TestStableError
    └── ConfigurationError        a file, option or URL that a person has to mend; always stable
        └── NoResultsError            nothing was measured yet, or the results are elsewhere

Retries look only at `transient`. A message says what was expected, what was found, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

_SHOWN: Final = 8  # reasons in one message


class BoardlabError(Exception):
    """Any error that boardlab raises on purpose.

    Attributes:
        fault: "board", "lab", "test" or "configuration".
        transient: True when the same action may succeed after a power cycle.
        failure: short name of the failure class as it is stored with an attempt, e.g. "hang_kernel".
    """

    fault: ClassVar[str] = "test"
    transient: ClassVar[bool] = False
    failure: str = "error"

    def __init__(self, message: str, *, failure: str | None = None) -> None:
        super().__init__(message)
        if failure is not None:
            self.failure = failure


class BoardError(BoardlabError):
    """The board did something wrong."""

    fault = "board"
    failure = "board"


class BoardTransientError(BoardError):
    """The board did something wrong that may not happen again."""

    transient = True


class BoardStableError(BoardError):
    """The board does something wrong every time."""


class LabError(BoardlabError):
    """The lab around the board failed: power, console, bench, server, disk."""

    fault = "lab"
    failure = "lab"


class LabTransientError(LabError):
    """The lab failed in a way that may pass."""

    transient = True


class LabStableError(LabError):
    """The lab is broken until a person repairs it."""


class TestError(BoardlabError):
    """The test is wrong: a misread answer or an impossible request."""

    __test__ = False  # pytest must not collect it by its name
    fault = "test"
    failure = "test"


class TestTransientError(TestError):
    """The test misread an answer; another try may read it."""

    transient = True


class TestStableError(TestError):
    """The test requests something impossible."""


class ConfigurationError(BoardlabError):
    """A file, an option or a URL is wrong and needs correction."""

    fault = "configuration"
    failure = "configuration"


class NoResultsError(ConfigurationError):
    """The database of results is missing or empty."""


def join_reasons(reasons: Sequence[str]) -> str:
    """The reasons in one line: the first ones, and the number of the others."""
    more = len(reasons) - _SHOWN
    return "; ".join([*reasons[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])
