"""What the exceptions of labgrid's drivers, and of the libraries below them, mean."""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import pexpect
import requests
from attrs import frozen
from labgrid.binding import BindingError, StateError
from labgrid.driver.exception import ExecutionError
from labgrid.exceptions import InvalidConfigError, NoConfigFoundError, NoSupplierFoundError, RegistrationError


@frozen
class Meaning:
    """A failure of any driver.

    Attributes:
        failure: the end of its class. transient: whether it may pass.
        mend: where it is always the same one; else that of the kind of driver.
        configuration: it is the environment's fault.
    """

    failure: str
    transient: bool = False
    mend: str = ""
    configuration: bool = False


_UNREACHABLE: Final = Meaning("unreachable", transient=True)
_FAILED: Final = Meaning("failed", transient=True)
_WRONG_URL: Final = Meaning("failed", mend="mend the URL of its resource in the env", configuration=True)
_WRONG_WIRING: Final = Meaning(
    "failed", mend="mend the target in the env; `lab env check` finds more", configuration=True
)

# The first that fits counts: a special one stands before the general one.
_MEANINGS: Final[tuple[tuple[type[BaseException], Meaning], ...]] = (
    (pexpect.TIMEOUT, Meaning("timeout", transient=True)),
    (pexpect.EOF, _UNREACHABLE),
    (requests.Timeout, Meaning("timeout", transient=True)),
    (subprocess.TimeoutExpired, Meaning("timeout", transient=True)),
    (TimeoutError, Meaning("timeout", transient=True)),
    (requests.exceptions.InvalidURL, _WRONG_URL),
    (requests.exceptions.InvalidSchema, _WRONG_URL),
    (requests.exceptions.MissingSchema, _WRONG_URL),
    (requests.exceptions.ContentDecodingError, _FAILED),
    (requests.exceptions.JSONDecodeError, _FAILED),
    (requests.RequestException, _UNREACHABLE),
    (subprocess.CalledProcessError, _FAILED),
    (ExecutionError, _FAILED),
    (http.client.HTTPException, _FAILED),
    (NoSupplierFoundError, Meaning("missing", mend="is it plugged in, and its resource in the env right?")),
    (BindingError, _WRONG_WIRING),
    (StateError, _WRONG_WIRING),
    (InvalidConfigError, _WRONG_WIRING),
    (NoConfigFoundError, _WRONG_WIRING),
    (RegistrationError, _WRONG_WIRING),
    (ImportError, Meaning("missing", mend="install what this driver of labgrid needs", configuration=True)),
    (FileNotFoundError, Meaning("missing", mend="is it plugged in or installed, and its name in the env right?")),
    (PermissionError, Meaning("missing", mend="give this user the right to it (a udev rule, a group), then resume")),
    (EOFError, Meaning("missing", mend="nobody is there to be asked: run it in a terminal")),
    (OSError, _UNREACHABLE),
    (ValueError, _FAILED),  # an answer that is no number, no UTF-8 …
)
_BROKEN: Final = Meaning(
    "broken",
    mend="this is a defect of the driver; `-o log_cli=true --log-level=DEBUG` shows where. Report it with that output",
)


def meaning(error: Exception) -> Meaning:
    """What an exception means that a driver has raised."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return Meaning("refused", transient=error.response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR)
    if isinstance(error, requests.RequestException) and any(
        isinstance(e, http.client.HTTPException) for e in _causes(error)
    ):
        return _FAILED  # somebody answered, and it was no HTTP
    if type(error) is Exception:  # what labgrid raises where it gives up
        return _FAILED
    if any(
        cls.__module__.partition(".")[0] == "grpc" for cls in type(error).__mro__
    ):  # slow to import for a comparison
        return _UNREACHABLE
    return next((found for cls, found in _MEANINGS if isinstance(error, cls)), _BROKEN)


def root(error: Exception) -> BaseException:
    """The exception that says what happened: of a failed request, the one that the libraries have wrapped."""
    found: BaseException = error
    while isinstance(error, requests.ConnectionError) and found.__context__ is not None:
        found = found.__context__
    return found


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that it came from; urllib3 hands them on as arguments, too."""
    seen: list[BaseException] = [error]
    for each in seen:
        more = [each.__cause__, each.__context__, *each.args, getattr(each, "reason", None)]
        seen += [e for e in more if isinstance(e, BaseException) and not any(e is known for known in seen)]
        yield each
