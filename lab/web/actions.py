"""Actions on a board, each a form (POST): of operators in a browser, and of programs with a token under /api/v1.

`middleware` has checked the sender before.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from lab.errors import ConfigurationError
from lab.farm import reservations, services
from lab.farm.config import TokenLimits
from lab.health.reservations import IGNORE, LONGEST_REASON, ReservationBook
from lab.host import process
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_WEB, number
from lab.results.audit import LONGEST_COMMENT, Audit
from lab.results.store import Store
from lab.run.options import LOW_POWER, MAX_CYCLES, SECTIONS
from lab.web import job_control
from lab.web.audit_log import Action, AuditLog, field
from lab.web.middleware import ANSWERS, API
from lab.web.site import Site

SUITES: Final = ("boot", LOW_POWER, SECTIONS, "guide")
ACTED: Final[dict[int | str, dict[str, Any]]] = {
    **ANSWERS,
    409: {**ANSWERS[404], "description": "It cannot be done as things are; `detail` says why, and what to do."},
    **{
        status: {**ANSWERS[404], "description": about}
        for status, about in ((408, "The form came too slowly."), (413, "The form is too long."))
    },
}
Board = Annotated[str, Path(max_length=200)]


def router(audit: AuditLog) -> APIRouter:
    """The actions' addresses."""
    # Two, since a router that is hidden hides all that it includes.
    routes, programs, both = APIRouter(include_in_schema=False), APIRouter(responses=ACTED), APIRouter()
    site, queueing = audit.site, threading.Lock()

    @routes.post("/boards/{board:path}/reserve")
    @programs.post("/api/v1/boards/{board:path}/reserve", openapi_extra=_fields("hours", "reason", "begin"))
    def reserve(request: Request, board: Board) -> Response:
        with audit.recording(request, reservations.RESERVE, board) as action:
            hours, reason = _number(field(request, "hours")), field(request, "reason", longest=LONGEST_REASON)
            begin = reservations.read_begin(text) if (text := field(request, "begin")) else None
            board_now, limits = audit.board(board), _limits(site, action)
            reservations.reserve(action.store, action, board_now, action.person.name, reason, hours, begin, limits)
        return done(request, action, board)

    @routes.post("/boards/{board:path}/release")
    @programs.post("/api/v1/boards/{board:path}/release")
    def release(request: Request, board: Board) -> Response:
        with audit.recording(request, reservations.RELEASE, board) as action:
            name, own = action.person.name, action.person.scope is not None
            reservations.end(action.store, action, board, "reserved", name, own=own)
        return done(request, action, board)

    @routes.post("/boards/{board:path}/maintain")
    def maintain(request: Request, board: Board) -> Response:
        with audit.recording(request, reservations.MAINTAIN, board) as action:
            reason = field(request, "reason", longest=LONGEST_REASON)
            reservations.maintain(action.store, action, audit.board(board), action.person.name, reason)
        return back(board)

    @routes.post("/boards/{board:path}/maintained")
    def end_maintenance(request: Request, board: Board) -> Response:
        with audit.recording(request, reservations.MAINTAINED, board) as action:
            reservations.end(action.store, action, board, "maintenance", action.person.name)
        return back(board)

    @routes.post("/boards/{board:path}/cancel")
    @programs.post("/api/v1/boards/{board:path}/cancel", openapi_extra=_fields("job"))
    def cancel(request: Request, board: Board) -> Response:
        with audit.recording(request, "cancel", board) as action:
            job_id = number(field(request, "job"))
            action.about = f"j{job_id}"
            queue = JobQueue(action.store, process.identity(), process.has_died)
            if queue.job(job_id).board != board:
                raise ConfigurationError(f"job j{job_id} is of another board")
            job = queue.cancel(job_id, action.person.name, own=action.person.scope is not None)
            # The holder of a power switch is the site itself, which sees by its job that it shall end.
            if job.state != "cancelled" and job.program != BY_WEB:
                process.ask_to_end(job.holder)
        return done(request, action, board)

    @routes.post("/boards/{board:path}/power-cycle")
    def power_cycle(request: Request, board: Board) -> Response:
        with audit.recording(request, "power-cycle", board) as action:
            site.refresh()
            job_control.power_cycle(site, action.store, action.person.name, audit.board(board))
        return back(board)

    @routes.post("/boards/{board:path}/run")
    @programs.post("/api/v1/boards/{board:path}/run", openapi_extra=_fields("suite", "release", "cycles"))
    def run(request: Request, board: Board) -> Response:
        with audit.recording(request, "run", board) as action:
            arguments = _arguments(request)
            action.about = " ".join(arguments)
            env = job_control.environment(audit.board(board))
            arguments = [f"--env={env}", *arguments, *own_reservation(action.store, board, action.person.name)]
            job = _queue_run(site, action, arguments, queueing)
            action.about = f"{job}: {action.about}"
        return done(request, action, board)

    @routes.post("/boards/{board:path}/comment")
    def comment(request: Request, board: Board) -> Response:
        with audit.recording(request, "comment", board) as action:
            text = field(request, "text", longest=LONGEST_COMMENT)
            action.about = text[:80]
            audit.board(board)
            Audit(action.store).comment(board, action.person.name, text)
        return back(board)

    both.include_router(routes)
    both.include_router(programs)
    return both


def done(request: Request, action: Action, board: str) -> Response:
    """The action as JSON for a program; a browser comes back to the board's page."""
    if not request.url.path.startswith(API):
        return back(board)
    return JSONResponse({"board": board, "person": action.person.name, "about": action.about})


def _fields(*names: str) -> dict[str, Any]:
    """Fields of a form in the OpenAPI document."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    return {"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": schema}}}}


def _arguments(request: Request) -> list[str]:
    """The arguments of `lab run` for a form.

    Raises:
        ConfigurationError: something in it is wrong.
    """
    suite, release, cycles = field(request, "suite"), field(request, "release"), field(request, "cycles")
    if suite not in SUITES:
        raise ConfigurationError(f"suite {suite!r}: there are {', '.join(SUITES)}")
    if cycles and not (cycles.isascii() and cycles.isdecimal() and 1 <= int(cycles[:9]) <= MAX_CYCLES):
        raise ConfigurationError(f"cycles {cycles!r:.40}: a whole number from 1 to {MAX_CYCLES}")
    arguments = [f"--suite={suite}"]
    arguments += [f"--release={release}"] if release else []
    return arguments + ([f"--cycles={cycles}"] if cycles else [])


def own_reservation(store: Store, board: str, person: str) -> list[str]:
    """The option that lets a person's job use their own reservation."""
    holds = ReservationBook(store).standing(board)
    return [IGNORE] if any(hold.person == person for hold in holds) else []


def _limits(site: Site, action: Action) -> TokenLimits | None:
    """The limits of a program; None: a person acts."""
    if action.person.scope is None:
        return None
    farm = services.host_file(site.farm).farm
    return TokenLimits() if farm is None else farm.web.tokens


def _queue_run(site: Site, action: Action, arguments: list[str], queueing: threading.Lock) -> str:
    """Queue a job; a program's are counted, one at a time.

    Raises:
        ConfigurationError: the program has as many as farm.yaml allows, or as of `job_control.queue_run`.
    """
    limits, name = _limits(site, action), action.person.name
    if limits is None:
        return job_control.queue_run(site, name, arguments)
    with queueing:
        count = listing.count_active(JobQueue(action.store, process.identity(), process.has_died), name)
        if count >= limits.jobs:
            raise ConfigurationError(
                f"{name} has {count} jobs that wait or measure, and may have {limits.jobs} (farm.yaml, web: tokens): "
                "cancel one first"
            )
        return job_control.queue_run(site, name, arguments)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"hours {text!r:.40}: a number, e.g. 4") from None


def back(board: str, part: str = "") -> Response:
    """Redirect to the board's page."""
    return RedirectResponse(f"/boards/{quote(board)}" + (f"#{part}" if part else ""), 303)
