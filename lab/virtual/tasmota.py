"""The power commands of Tasmota's HTTP interface, which pdudaemon's driver `tasmota` speaks.

Source: https://tasmota.github.io/docs/Commands/#control ("Power<x>"). As with SetOption26 the answer always names the
outlet's number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

from attrs import frozen

from lab.virtual.http import JsonResponse

PATH = "/cm"
_POWER = re.compile(r"power(\d*)(?:\s+(\w+))?", re.IGNORECASE)


class OutletAction(StrEnum):
    """Action on an outlet."""

    ON = "on"
    OFF = "off"
    QUERY = "query"


@frozen
class PowerCommand:
    """A command to one outlet; outlets count from 1."""

    outlet: int
    action: OutletAction


def parse(command: str) -> PowerCommand | None:
    """Parse the power command in `cmnd`; None: another command."""
    found = _POWER.fullmatch(command.strip())
    if found is None:
        return None
    actions = {
        None: OutletAction.QUERY,
        "on": OutletAction.ON,
        "1": OutletAction.ON,
        "off": OutletAction.OFF,
        "0": OutletAction.OFF,
    }
    action = actions.get(found.group(2) and found.group(2).lower())
    return None if action is None else PowerCommand(int(found.group(1) or 1), action)


def done(outlet: int, *, on: bool) -> JsonResponse:
    """The outlet has this state."""
    return JsonResponse(HTTPStatus.OK, {f"POWER{outlet}": "ON" if on else "OFF"})


def ok(body: Mapping[str, object]) -> JsonResponse:
    """A question of ours, which Tasmota does not know, has this answer."""
    return JsonResponse(HTTPStatus.OK, body)


def unknown(command: str) -> JsonResponse:
    """No such command."""
    return JsonResponse(
        HTTPStatus.BAD_REQUEST, {"Command": "Unknown", "error": f"expected PowerN On, Off or nothing; got {command!r}"}
    )


def failed(reason: str) -> JsonResponse:
    """The outlet did not reach the state."""
    return JsonResponse(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": reason})
