"""Bench panel over HTTP: straps, multiplexer, pins and faults.

GET|PUT /boards/NAME/straps/bitN     {"state": "on"} or "off"; a PUT's body is on or off (or 1 or 0)
GET|PUT /boards/NAME/sdmux           {"state": "dut"}: position of its SD card; a PUT's body is host, dut or off
PUT     /boards/NAME/pins/PIN        on: activity on a pin that wakes the board; off: none
GET     /boards/NAME/pins/app        {"state": "on"} while its application is ready: a pin that the board drives
GET     /boards/NAME/application     the application's own answer; 503 until it is ready
GET     /boards/NAME/faults          active and planned faults of the board
PUT     /boards/NAME/faults?fault=F&cycles=2-3&seed=7&...
PUT     /boards/NAME/faults          clears them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from lab.errors import ConfigurationError, LabError
from lab.virtual import sdmux, straps
from lab.virtual.board import BoardPower, Misbehaving, Signalling, Wakeable
from lab.virtual.http import JsonResponse, Request
from lab.virtual.outlet import Outlet

PREFIX = "/boards/"
_APP = "app"
_LEVELS = {"on": True, "1": True, "off": False, "0": False}


def answer(request: Request, outlets: Mapping[str, Outlet]) -> JsonResponse:
    """The panel's answer to a request below `PREFIX`."""
    name, _, rest = request.path.removeprefix(PREFIX).partition("/")
    outlet = outlets.get(name)
    try:
        if outlet is not None and rest in _WHOLE:
            return _WHOLE[rest](request, outlet)
        if outlet is not None and rest.startswith("straps/bit"):
            return _strap(request, outlet, rest.removeprefix("straps/bit"))
        if outlet is not None and rest.startswith("pins/"):
            return _pin(request, outlet, rest.removeprefix("pins/"))
    except ConfigurationError as error:
        return JsonResponse(HTTPStatus.BAD_REQUEST, {"error": str(error)})
    except LabError as error:
        return JsonResponse(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})
    known = ", ".join(outlets)
    return JsonResponse(
        HTTPStatus.NOT_FOUND,
        {"error": f"no {request.path}; there are {PREFIX}NAME/straps/bitN and {PREFIX}NAME/faults for: {known}"},
    )


def _strap(request: Request, outlet: Outlet, bit: str) -> JsonResponse:
    if not bit.isdigit() or not straps.path(outlet.folder.straps, int(bit)).exists():
        return JsonResponse(HTTPStatus.NOT_FOUND, {"error": f"{outlet.folder.name} has no strap {bit!r}"})
    if request.body is not None:
        level = request.body.decode("ascii", errors="replace").strip().lower()
        if level not in _LEVELS:
            return JsonResponse(HTTPStatus.BAD_REQUEST, {"error": f"expected on or off, got {level!r}"})
        straps.write(outlet.folder.straps, int(bit), high=_LEVELS[level])
    high = straps.read(outlet.folder.straps, int(bit) + 1) >> int(bit) & 1
    return JsonResponse(HTTPStatus.OK, {"state": "on" if high else "off"})


def _sdmux(request: Request, outlet: Outlet) -> JsonResponse:
    if request.body is not None:
        place = request.body.decode("ascii", errors="replace").strip().lower()
        sdmux.switch(outlet.folder, place, is_on=outlet.power is BoardPower.ON)
    return JsonResponse(HTTPStatus.OK, {"state": sdmux.position(outlet.folder)})


def _pin(request: Request, outlet: Outlet, pin: str) -> JsonResponse:
    name, backend = outlet.folder.name, outlet.backend
    if pin == _APP and isinstance(backend, Signalling) and request.body is None:
        return JsonResponse(HTTPStatus.OK, {"state": "on" if backend.ready else "off"})
    if not isinstance(backend, Wakeable) or pin not in backend.pins:
        return JsonResponse(HTTPStatus.NOT_FOUND, {"error": f"{name} has no pin {pin!r} that wakes it"})
    level = (request.body or b"").decode("ascii", errors="replace").strip().lower()
    if level not in _LEVELS:
        return JsonResponse(HTTPStatus.BAD_REQUEST, {"error": f"expected on or off, got {level!r}"})
    if _LEVELS[level]:
        backend.pulse(pin)
    return JsonResponse(HTTPStatus.OK, {"state": level})


def _application(_request: Request, outlet: Outlet) -> JsonResponse:
    ready = isinstance(outlet.backend, Signalling) and outlet.backend.ready
    return JsonResponse(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, {"ready": ready})


def _faults(request: Request, outlet: Outlet) -> JsonResponse:
    if not isinstance(outlet.backend, Misbehaving):
        raise ConfigurationError(f"{outlet.folder.name} is no simulated board; only those misbehave on request")
    if request.body is not None and request.query:
        outlet.backend.inject(request.query)
    elif request.body is not None:
        outlet.backend.clear()
    return JsonResponse(HTTPStatus.OK, outlet.backend.faults())


_WHOLE: Final[Mapping[str, Callable[[Request, Outlet], JsonResponse]]] = {
    "sdmux": _sdmux,
    "faults": _faults,
    "application": _application,
}
