"""The one way in which boardlab calls a driver: with a time limit, and every failure in our error tree.

labgrid's drivers raise whatever the libraries below them raise, and wait for as long as those wait. Here each failure gets
its class (whose fault, transient or stable), and a message that names the driver, its resource and the mend. The classes of
a kind of driver begin with its name: `strap_timeout`, `strap_unreachable`, `strap_refused`, `strap_failed`,
`strap_missing`, `strap_broken`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from attrs import frozen
from labgrid.driver.exception import ExecutionError
from labgrid.exceptions import NoResourceFoundError
from labgrid.resource import Resource
from labgrid.resource.httpdigitalout import HttpDigitalOutput
from labgrid.resource.remote import RemotePlace

from lab.drivers.failures import Meaning, meaning, root
from lab.drivers.timelimit import TimeLimitError, within
from lab.errors import (
    BoardlabError,
    BoardStableError,
    BoardTransientError,
    ConfigurationError,
    LabStableError,
    LabTransientError,
)
from lab.redaction import redacted
from lab.shown import plain

SWITCH_LIMIT_S: Final = (
    10.0  # of a digital output: a relay moves in milliseconds, an HTTP server needs some of a second
)
POWER_LIMIT_S: Final = 30.0  # as StampedPDUDaemonDriver's: a PDU behind SNMP with its retries
PERSON_LIMIT_S: Final = 600.0  # where the driver asks a person to do it
ACTIVATE_LIMIT_S: Final = 60.0  # resources are waited for, ssh connects
GRACE_S: Final = 10.0  # beyond a limit that the driver itself was given
_PERSONS: Final = ("ManualPowerDriver", "ManualSwitchDriver")
_PLACE: Final = (
    "url",
    "host",
    "address",
    "path",
    "port",
    "device",
    "index",
)  # of a resource; what a person knows it by
_SAID_CHARACTERS: Final = 200
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


@frozen
class DriverRole:
    """What a driver is to the lab.

    Attributes:
        name: its failure classes begin with it. noun: how messages call it.
        mend: what to look at when it fails.
        passing, lasting: the errors for what may pass and for what will not.
    """

    name: str
    noun: str
    mend: str
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
CONSOLE = DriverRole("console", "console", "is the adapter plugged in? `lab console status` shows what is read")
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
        return within(_limit(driver, limit_s), work)
    except BoardlabError:
        raise
    except Exception as error:
        if _interrupted(error, handled):
            raise KeyboardInterrupt from error
        raise _ours(driver, kind, action, error) from error


def deactivate(driver: Any, kind: DriverRole, limit_s: float = ACTIVATE_LIMIT_S) -> None:
    """Deactivate a driver and what is bound to it.

    Raises:
        BoardlabError: as of `call`.
    """
    call(driver, kind, "deactivate", lambda: driver.target.deactivate(driver), limit_s)


def described(driver: Any) -> str:
    """How a message calls a driver: its name, its class, and the resources that it is bound to."""
    cls, name = type(driver).__name__, getattr(driver, "name", None)
    places = ", ".join(sorted(_places(driver)))
    at = f" on {places}" if places else ""
    return f"{name} ({cls}{at})" if name else f"{cls}{at}"


def _interrupted(error: BaseException | None, handled: BaseException | None) -> bool:
    """Whether an error came while a Ctrl-C of the same call was on its way; `handled` is older than the call."""
    while error is not None and error is not handled:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _ours(driver: Any, kind: DriverRole, action: str, error: Exception) -> BoardlabError:
    cause = root(error)
    if isinstance(error, TimeLimitError):
        found, said = Meaning("timeout", True), f"{error}, and was given up"
    else:
        if _is_gone(driver, cause):
            return LabTransientError(
                f"{kind.noun} {described(driver)}: {action}: no exporter offers it now: is `lab farm export` up on the board's host, and the "
                "console server there? (systemctl status boardlab-export boardlab-console)",
                failure="exporter_gone",
            )
        found, said = meaning(error), f"{type(cause).__name__}: {_said(cause)}"
    _log.debug("%s: %s: %s", described(driver), action, said, exc_info=error)
    failure = f"{kind.name}_{found.failure}"
    mend = found.mend or _unread(driver, cause) or kind.mend
    text = f"{kind.noun} {described(driver)}: {action}: {said}. {mend[:1].upper()}{mend[1:]}"
    if found.configuration:
        return ConfigurationError(text)
    return (kind.passing if found.transient else kind.lasting)(text, failure=failure)


def _unread(driver: Any, error: BaseException) -> str:
    """The mend where a relay behind HTTP answered what is none of the two answers that its resource names; else empty."""
    resource = getattr(driver, "http", None)
    if not isinstance(resource, HttpDigitalOutput) or not isinstance(error, ExecutionError):
        return ""
    lacks = [name for name in ("body_get_asserted", "body_get_deasserted") if not getattr(resource, name)]
    given = " and ".join(lacks or ["body_get_asserted", "body_get_deasserted"])
    return (
        f"its HttpDigitalOutput {'lacks' if lacks else 'has other'} {given}: a regular expression of the whole answer for each state, "
        "e.g. body_get_asserted: '.*\"on\".*'"
    )


def _is_gone(driver: Any, error: BaseException) -> bool:
    """Whether a driver failed since its place's resource is offered no more, or is not available; labgrid has nothing in an entry that is gone."""
    lacks = isinstance(error, NoResourceFoundError) or (isinstance(error, KeyError) and error.args == ("params",))
    target = getattr(driver, "target", None)
    return lacks and any(isinstance(each, RemotePlace) for each in getattr(target, "resources", ()))


def _limit(driver: Any, limit_s: float) -> float:
    """A person's; else no less than the driver itself says that it may need (`needs_s`), e.g. to connect anew with another host."""
    return PERSON_LIMIT_S if _asks_a_person(driver) else max(limit_s, getattr(driver, "needs_s", 0.0))


def _asks_a_person(driver: Any) -> bool:
    """Whether it, or what it drives, is done by hand: a DigitalOutputPowerDriver may be on a ManualSwitchDriver."""
    if any(cls.__name__ in _PERSONS for cls in type(driver).__mro__):
        return True
    return any(_asks_a_person(supplier) for supplier in getattr(driver, "suppliers", ()))


def missing(error: NoResourceFoundError) -> str:
    """The resources that labgrid waited for in vain, by their class and what they must match; else labgrid's own words."""
    waiting = [(type(each).__name__, dict(getattr(each, "match", {}))) for each in error.filter or ()]
    return ", ".join(f"{name} {match}" for name, match in waiting) or str(error.msg)


def _places(driver: Any) -> Iterator[str]:
    for supplier in getattr(driver, "suppliers", ()):
        if isinstance(supplier, Resource):
            known = [str(getattr(supplier, field)) for field in _PLACE if getattr(supplier, field, None) is not None]
            yield " ".join([type(supplier).__name__, *map(redacted, known)])


def _said(error: BaseException) -> str:
    """An error's own words on one line, without a URL's password and without what moves a terminal's cursor."""
    if isinstance(error, NoResourceFoundError):
        return f"nothing is there that fits {missing(error)}"
    text = redacted(plain(" ".join(str(getattr(error, "msg", None) or error).split())))
    return text if len(text) <= _SAID_CHARACTERS else f"{text[:_SAID_CHARACTERS]} …"
