"""Decisions on verdicts: accept, reject, mute and measure again.

They are the judge's own states, as `lab judge accept`, `reject` and `mute` set them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from glob import escape
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import RedirectResponse, Response

from lab.errors import ConfigurationError
from lab.health.reservations import LONGEST_REASON
from lab.host.clock import utc_now
from lab.judge import text
from lab.judge.records import CALLED, UNSURE, Decision, StoredVerdict
from lab.judge.store import mute, read_verdicts, review
from lab.results.records import LAST_ID
from lab.results.store import Store
from lab.web import job_control
from lab.web.actions import back, own_reservation
from lab.web.audit_log import AuditLog, field, form
from lab.web.login import inside

LATELY: Final = dt.timedelta(days=90)
MOST: Final = 50  # verdicts of a page
_READ: Final = 500  # verdicts of a page's boards that are read, the newest ones
_LONGEST_ADDRESS: Final = 2000
_DIGITS: Final = 12
_DECISIONS: Final[Mapping[str, Decision]] = {"accept": "accepted", "reject": "rejected"}


def router(audit: AuditLog) -> APIRouter:
    """The addresses that decide."""
    routes = APIRouter(include_in_schema=False)

    @routes.post("/triage/review")
    def review_run(request: Request) -> Response:
        decision, after = form(request).get("decision", ""), _next(request)
        with audit.recording(request, decision if decision in _DECISIONS else "review") as action:
            action.about = f"run {field(request, 'run')}"
            reason = field(request, "reason", longest=LONGEST_REASON)
            action.about += f": {reason}"
            run_id = _id(field(request, "run"))
            if decision not in _DECISIONS:
                raise ConfigurationError(f"decision {decision!r:.40}: one of {', '.join(_DECISIONS)}")
            if decision == "reject" and not reason:
                raise ConfigurationError("say what was wrong with the run")
            review(action.store, run_id, _DECISIONS[decision], action.person.name, reason)
        return RedirectResponse(after, 303)

    @routes.post("/triage/mute")
    def mute_number(request: Request) -> Response:
        after = _next(request)
        with audit.recording(request, "mute") as action:
            action.about = f"v{field(request, 'verdict')}"
            until, reason = field(request, "until"), field(request, "reason", longest=LONGEST_REASON)
            action.about += f" until {until}: {reason}"
            verdict_id = _id(field(request, "verdict"))
            verdicts = read_verdicts(action.store, verdict_id=verdict_id)
            if not verdicts:
                raise ConfigurationError(f"no verdict v{verdict_id} (any more): the run was judged again")
            if not reason:
                raise ConfigurationError("say why nobody needs to hear of it")
            ((verdict,), by) = verdicts, action.person.name
            params = {name: escape(value) for name, value in verdict.params.items()}
            board, day = verdict.run.board, _day(until)
            mute(action.store, escape(verdict.metric), board=board, params=params, until=day, reason=reason, by=by)
        return RedirectResponse(after, 303)

    @routes.post("/runs/{run_id}/again")
    def again(request: Request, run_id: Annotated[int, Path(ge=1, le=LAST_ID)]) -> Response:
        with audit.recording(request, "measure again", about=f"run {run_id}") as action:
            measured = action.store.run(run_id)
            if not read_verdicts(action.store, run_id=run_id, outcomes=[UNSURE]):
                raise ConfigurationError(f"the judge asks for nothing of run {run_id} again")
            env = job_control.environment(audit.board(measured.board))
            arguments = [f"--env={env}", f"--confirms={run_id}", f"--release={measured.release}"]
            arguments += own_reservation(action.store, measured.board, action.person.name)
            action.about = (
                f"{job_control.queue_run(audit.site, action.person.name, arguments)}: run {run_id} of {measured.board}"
            )
        return back(measured.board)

    return routes


def read_recent(store: Store, metric: str, boards: Collection[str]) -> list[StoredVerdict]:
    """The newest recent verdicts on these boards with a change, or that need another run."""
    return read_verdicts(
        store, metric=metric, boards=boards, since=utc_now() - LATELY, outcomes=(*CALLED, UNSURE), most=_READ
    )


def table_rows(verdicts: Iterable[StoredVerdict]) -> list[dict[str, Any]]:
    """Verdicts for a metric's page, the undecided ones first."""
    ordered = sorted(verdicts, key=lambda verdict: not verdict.open)  # of each the newest first, as they are read
    return [
        {
            "id": verdict.id,
            "run": verdict.run,
            "text": text.sentence(verdict),
            "outcome": verdict.outcome,
            "open": verdict.open,
            "state": text.state(verdict),
        }
        for verdict in ordered[:MOST]
    ]


def _next(request: Request) -> str:
    """The next page's address, checked before anything is done."""
    return inside(form(request).get("next", "/")[:_LONGEST_ADDRESS])


def _id(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and 1 <= int(text) <= LAST_ID):
        raise ConfigurationError(f"{text!r:.40}: a number")
    return int(text)


def _day(text: str) -> dt.datetime:
    """The beginning of a day, in UTC."""
    try:
        return dt.datetime.combine(dt.date.fromisoformat(text), dt.time(), dt.UTC)
    except ValueError:
        raise ConfigurationError(f"{text!r:.40} is no day; write it like 2026-12-24") from None
