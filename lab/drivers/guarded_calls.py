"""Calls of drivers, with time limits and boardlab's errors.

labgrid's drivers raise the exceptions of the libraries below them, and wait for as long as those wait. Here each
failure gets its class (fault, transient or stable), and a message that names the driver, its resource and the remedy.
The classes of a kind of driver begin with its name: `strap_timeout`, `strap_unreachable`, `strap_refused`,
`strap_failed`, `strap_missing`, `strap_broken`.
"""

from __future__ import annotations

import http.client
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import pexpect
import requests
from attrs import frozen
from labgrid.binding import BindingError, StateError
from labgrid.driver.exception import ExecutionError
from labgrid.exceptions import (
    InvalidConfigError,
    NoConfigFoundError,
    NoResourceFoundError,
    NoSupplierFoundError,
    RegistrationError,
)
from labgrid.resource import Resource
from labgrid.resource.httpdigitalout import HttpDigitalOutput
from labgrid.resource.remote import RemotePlace

from lab.errors import (
    BoardlabError,
    BoardStableError,
    BoardTransientError,
    ConfigurationError,
    LabStableError,
    LabTransientError,
)
from lab.host import devices
from lab.redaction import redact
from lab.terminal import plain

# Of a digital output: a relay moves in milliseconds, an HTTP server needs some of a second
SWITCH_LIMIT_S: Final = 10.0
POWER_LIMIT_S: Final = 30.0  # as StampedPDUDaemonDriver's: a PDU behind SNMP with its retries
PERSON_LIMIT_S: Final = 600.0  # where the driver asks a person to do it
ACTIVATE_LIMIT_S: Final = 60.0  # resources are waited for, ssh connects
GRACE_S: Final = 10.0  # beyond a limit that the driver itself was given
_PERSONS: Final = ("ManualPowerDriver", "ManualSwitchDriver")
# Attributes by which a person knows a resource
_PLACE: Final = ("url", "host", "address", "path", "port", "device", "index")
_MOST_CHARACTERS: Final = 200
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


@frozen
class DriverRole:
    """Role of a driver in the lab.

    Attributes:
        name: its failure classes begin with it.
        noun: its name in messages.
        hint: what to look at when it fails.
        passing, lasting: the errors for transient and for stable failures.
    """

    name: str
    noun: str
    hint: str
    passing: type[BoardlabError] = LabTransientError
    lasting: type[BoardlabError] = LabStableError


STRAP = DriverRole(
    "strap", "boot-mode strap", "is the straps' switch powered and reachable, and its resource in the env right?"
)
WAKE_PIN = DriverRole(
    "wake_pin", "wake-up pin", "is the pin's switch powered and reachable, and its resource in the env right?"
)
POWER = DriverRole(
    "power", "power switch", "is the power switch powered and reachable, and its resource in the env right?"
)
MULTIPLEXER = DriverRole(
    "multiplexer", "SD multiplexer", "is its USB cable in, its tool installed, and its resource in the env right?"
)
CONSOLE = DriverRole("console", "console", "is the adapter plugged in? `lab console list` shows what is read")
RAILS = DriverRole("rails", "rails", "is the sensors' bus connected? `lab rails selftest` shows what answers")
TESTER = DriverRole("tester", "tester", "is the tester on, and can this user log in there without a password?")
SHELL = DriverRole(
    "shell", "shell", "the attempt's log shows what the board said last", BoardTransientError, BoardStableError
)
UBOOT = DriverRole(
    "uboot", "U-Boot", "the attempt's log shows what the board said last", BoardTransientError, BoardStableError
)


def call(driver: Any, kind: DriverRole, action: str, work: Callable[[], Result], limit_s: float) -> Result:
    """The result of `work`, which asks `driver` to do something.

    Args:
        action: for the message, what was asked for, e.g. "set to 1".
        limit_s: seconds until it must have ended.

    Raises:
        BoardlabError: as the driver raised it, or, of the kind's classes, what became of the call.
        KeyboardInterrupt: Ctrl-C, also where the driver made another error of it while it cleaned up.
    """
    handled = sys.exc_info()[1]
    try:
        # A person needs longer than a relay. So may a driver, e.g. to reconnect to another host.
        whole_s = PERSON_LIMIT_S if _asks_a_person(driver) else max(limit_s, getattr(driver, "needs_s", 0.0))
        return within(whole_s, work)
    except BoardlabError:
        raise
    except Exception as error:
        if _is_interrupt(error, handled):
            raise KeyboardInterrupt from error
        raise _lab_error(driver, kind, action, error) from error


def current_node(resource: Any, attribute: str, kind: DriverRole) -> Any:
    """A node of a resource, e.g. its `port`, after the check that udev's device still has it.

    labgrid learns of a reset from a queue: until then the name may be another device's.

    Raises:
        LabTransientError: it has another name now, or none.
    """
    device: Any = None
    for _ in range(2):
        node, device = getattr(resource, attribute), getattr(resource, "device", None)
        if device is None or node is None:
            return node
        # An SDWire's card reader is beside its switch, at the hub in it.
        owner = device.parent if type(resource).__name__.startswith("USBSDWire") else device
        if devices.belongs_to(Path(node), str(owner.device_path)):
            return node
        resource.poll()
    raise LabTransientError(
        f"{kind.noun}: {type(resource).__name__}: {node} is not the device at {device.device_path} any more: its hub "
        "was reset, or it was plugged anew. Nothing was written; try again",
        failure=f"{kind.name}_unreachable",
    )


def deactivate(driver: Any, kind: DriverRole, limit_s: float = ACTIVATE_LIMIT_S) -> None:
    """Deactivate a driver and what is bound to it.

    Raises:
        BoardlabError: as of `call`.
    """
    call(driver, kind, "deactivate", lambda: driver.target.deactivate(driver), limit_s)


def describe(driver: Any) -> str:
    """Describe a driver: its name, class and resources."""
    cls, name = type(driver).__name__, getattr(driver, "name", None)
    places = []
    for supplier in getattr(driver, "suppliers", ()):
        if isinstance(supplier, Resource):
            values = [str(getattr(supplier, field)) for field in _PLACE if getattr(supplier, field, None) is not None]
            places.append(" ".join([type(supplier).__name__, *map(redact, values)]))
    at = f" on {', '.join(sorted(places))}" if places else ""
    return f"{name} ({cls}{at})" if name else f"{cls}{at}"


def _is_interrupt(error: BaseException | None, handled: BaseException | None) -> bool:
    """Return whether a Ctrl-C of the same call caused an error.

    `handled` is older than the call.
    """
    while error is not None and error is not handled:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _lab_error(driver: Any, kind: DriverRole, action: str, error: Exception) -> BoardlabError:
    cause = root(error)
    if isinstance(error, TimeLimitError):
        failure_meaning, reason = FailureMeaning("timeout", True), f"{error}, and was given up"
    else:
        lacks = isinstance(cause, NoResourceFoundError) or (isinstance(cause, KeyError) and cause.args == ("params",))
        resources = getattr(getattr(driver, "target", None), "resources", ())
        # labgrid leaves an entry without content, of a place's resource that is gone.
        if lacks and any(isinstance(resource, RemotePlace) for resource in resources):
            return LabTransientError(
                f"{kind.noun} {describe(driver)}: {action}: no exporter offers it now: is `lab farm export` up on the "
                "board's host, and the console server there? (systemctl status boardlab-export boardlab-console)",
                failure="exporter_gone",
            )
        failure_meaning, reason = meaning(error), f"{type(cause).__name__}: {_text(cause)}"
    _log.debug("%s: %s: %s", describe(driver), action, reason, exc_info=error)
    failure = f"{kind.name}_{failure_meaning.failure}"
    hint = failure_meaning.hint or _wrong_answer_hint(driver, cause) or kind.hint
    text = f"{kind.noun} {describe(driver)}: {action}: {reason}. {hint[:1].upper()}{hint[1:]}"
    if failure_meaning.configuration:
        return ConfigurationError(text)
    return (kind.passing if failure_meaning.transient else kind.lasting)(text, failure=failure)


def _wrong_answer_hint(driver: Any, error: BaseException) -> str:
    """Remedy for an HTTP relay with an unknown answer; else empty.

    The answer is none of the two that its resource names.
    """
    resource = getattr(driver, "http", None)
    if not isinstance(resource, HttpDigitalOutput) or not isinstance(error, ExecutionError):
        return ""
    lacks = [name for name in ("body_get_asserted", "body_get_deasserted") if not getattr(resource, name)]
    attributes = " and ".join(lacks or ["body_get_asserted", "body_get_deasserted"])
    return (
        f"its HttpDigitalOutput {'lacks' if lacks else 'has other'} {attributes}: a regular expression of the whole "
        "answer for each state, e.g. body_get_asserted: '.*\"on\".*'"
    )


def _asks_a_person(driver: Any) -> bool:
    """Return whether the driver, or a supplier of it, is manual.

    A DigitalOutputPowerDriver may be on a ManualSwitchDriver.
    """
    if any(cls.__name__ in _PERSONS for cls in type(driver).__mro__):
        return True
    return any(_asks_a_person(supplier) for supplier in getattr(driver, "suppliers", ()))


def missing(error: NoResourceFoundError) -> str:
    """Describe the resources that labgrid waited for in vain.

    These are their classes and matches, else labgrid's own text.
    """
    waiting = [(type(resource).__name__, dict(getattr(resource, "match", {}))) for resource in error.filter or ()]
    return ", ".join(f"{name} {match}" for name, match in waiting) or str(error.msg)


def _text(error: BaseException) -> str:
    """Text of an error on one line.

    It has neither a URL's password nor control sequences of a terminal.
    """
    if isinstance(error, NoResourceFoundError):
        return f"nothing is there that fits {missing(error)}"
    text = redact(plain(" ".join(str(getattr(error, "msg", None) or error).split())))
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"


@frozen
class FailureMeaning:
    """A failure of any driver.

    Attributes:
        failure: the end of its class.
        transient: whether it may pass.
        hint: where it is always the same one; else that of the kind of driver.
        configuration: it is the environment's fault.
    """

    failure: str
    transient: bool = False
    hint: str = ""
    configuration: bool = False


_UNREACHABLE: Final = FailureMeaning("unreachable", transient=True)
_FAILED: Final = FailureMeaning("failed", transient=True)
_WRONG_URL: Final = FailureMeaning("failed", hint="mend the URL of its resource in the env", configuration=True)
_WRONG_WIRING: Final = FailureMeaning(
    "failed", hint="mend the target in the env; `lab env check` finds more", configuration=True
)

# The first that fits counts: a special one stands before the general one.
_MEANINGS: Final[tuple[tuple[type[BaseException], FailureMeaning], ...]] = (
    (pexpect.TIMEOUT, FailureMeaning("timeout", transient=True)),
    (pexpect.EOF, _UNREACHABLE),
    (requests.Timeout, FailureMeaning("timeout", transient=True)),
    (subprocess.TimeoutExpired, FailureMeaning("timeout", transient=True)),
    (TimeoutError, FailureMeaning("timeout", transient=True)),
    (requests.exceptions.InvalidURL, _WRONG_URL),
    (requests.exceptions.InvalidSchema, _WRONG_URL),
    (requests.exceptions.MissingSchema, _WRONG_URL),
    (requests.exceptions.ContentDecodingError, _FAILED),
    (requests.exceptions.JSONDecodeError, _FAILED),
    (requests.RequestException, _UNREACHABLE),
    (subprocess.CalledProcessError, _FAILED),
    (ExecutionError, _FAILED),
    (http.client.HTTPException, _FAILED),
    (NoSupplierFoundError, FailureMeaning("missing", hint="is it plugged in, and its resource in the env right?")),
    (BindingError, _WRONG_WIRING),
    (StateError, _WRONG_WIRING),
    (InvalidConfigError, _WRONG_WIRING),
    (NoConfigFoundError, _WRONG_WIRING),
    (RegistrationError, _WRONG_WIRING),
    (ImportError, FailureMeaning("missing", hint="install what this driver of labgrid needs", configuration=True)),
    (
        FileNotFoundError,
        FailureMeaning("missing", hint="is it plugged in or installed, and its name in the env right?"),
    ),
    (
        PermissionError,
        FailureMeaning("missing", hint="give this user the right to it (a udev rule, a group), then resume"),
    ),
    (EOFError, FailureMeaning("missing", hint="there is no terminal to ask a person: run it in one")),
    (OSError, _UNREACHABLE),
    (ValueError, _FAILED),  # an answer that is no number, no UTF-8 …
)
_BROKEN: Final = FailureMeaning(
    "broken",
    hint="this is a defect of the driver; `-o log_cli=true --log-level=DEBUG` shows where. Report it with that output",
)


def meaning(error: Exception) -> FailureMeaning:
    """Classify an exception of a driver."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return FailureMeaning("refused", transient=error.response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR)
    if isinstance(error, requests.RequestException) and any(
        isinstance(e, http.client.HTTPException) for e in _causes(error)
    ):
        return _FAILED  # somebody answered, and it was no HTTP
    if type(error) is Exception:  # what labgrid raises where it gives up
        return _FAILED
    # By its name: importing grpc takes long
    if any(cls.__module__.partition(".")[0] == "grpc" for cls in type(error).__mro__):
        return _UNREACHABLE
    return next((result for cls, result in _MEANINGS if isinstance(error, cls)), _BROKEN)


def root(error: Exception) -> BaseException:
    """Innermost exception that a failed request wraps."""
    innermost: BaseException = error
    while isinstance(error, requests.ConnectionError) and innermost.__context__ is not None:
        innermost = innermost.__context__
    return innermost


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes.

    urllib3 hands them on as arguments, too.
    """
    causes: list[BaseException] = [error]
    for cause in causes:
        more = [cause.__cause__, cause.__context__, *cause.args, getattr(cause, "reason", None)]
        causes += [e for e in more if isinstance(e, BaseException) and not any(e is other for other in causes)]
        yield cause


# --- Time limits for blocking calls ---
# The call is interrupted by a timer's signal rather than left behind in a thread: a call that is left behind goes on
# later, e.g. connects at last and moves a strap in the middle of another boot, and labgrid's stack of steps knows no
# threads. What is interrupted unwinds as with Ctrl-C: sockets are closed, and programs that it has started are killed.
#
# Signals reach the main thread only; in any other one a call has no limit but its own. Nothing interrupts a call that
# hangs inside the kernel (state D of ps(1)).


AGAIN_S = 1.0  # the timer rings again if a library has swallowed the interruption
_LEAST_S = 1e-3  # of a timer: zero would switch it off


class TimeLimitError(Exception):
    """The call did not end within its limit."""


class _RingError(BaseException):
    """Interrupts a call.

    It is no Exception, so that no library takes it for a failed connection.
    """


def within(limit_s: float, work: Callable[[], Result]) -> Result:
    """The result of `work`, which has this many seconds.

    A timer that somebody set before (an outer limit, pytest-timeout) goes on counting, and rings first where it is due
    first.

    Raises:
        TimeLimitError: it did not end in time; programs that it started meanwhile are killed.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outer_s = signal.getitimer(signal.ITIMER_REAL)[0]
    if 0 < outer_s <= limit_s:
        return work()
    return _run_limited(limit_s, work, outer_s)


def _run_limited(limit_s: float, work: Callable[[], Result], outer_s: float) -> Result:
    ring = _RingError()
    listening, rung = True, False

    def rings(_number: int, _frame: FrameType | None) -> None:
        nonlocal rung
        if listening:
            rung = True
            raise ring

    before, children = signal.signal(signal.SIGALRM, rings), _children()
    began = time.monotonic()
    _, outer_again_s = signal.setitimer(signal.ITIMER_REAL, limit_s, AGAIN_S)
    try:
        try:
            return work()
        finally:
            listening = False
    except BaseException as error:
        if not rung or isinstance(error, KeyboardInterrupt):
            raise
        for pid in _children() - children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # `subprocess` waits for them
        raise TimeLimitError(f"did not end within {limit_s:g} s") from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer_s:
            remaining_s = outer_s - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(_LEAST_S, remaining_s), outer_again_s)


def _children() -> frozenset[int]:
    """Running child processes of this thread (proc_pid_task(5))."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii")
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return frozenset()
    return frozenset(map(int, text.split()))
