"""Actions of people, each with an entry in the audit log.

An entry has the person, the action, the board and the outcome.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final

from anyio import CapacityLimiter, to_thread
from attrs import define
from attrs import field as attribute
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from lab.errors import BoardlabError, ConfigurationError
from lab.farm import reservations
from lab.farm.board_state import BoardNow
from lab.http.access import WINDOW_S, Window, origin
from lab.results.audit import Act, Audit, Entry, as_csv, document
from lab.results.records import LAST_ID
from lab.results.store import Store
from lab.web.auth import NOBODY, Person
from lab.web.middleware import ANSWERS, WITHOUT_NUL
from lab.web.rendering import Renderer
from lab.web.site import Site

MOST_REFUSED: Final = (
    20  # entries about what was refused to a person or, where nobody is known, to an address, in WINDOW_S
)
MOST_REFUSED_IN_ALL: Final = 200
_LONGEST: Final = 200  # characters of a field that is no text of its own
_log = logging.getLogger(__name__)


@define
class Action(Act):
    """An action of a person."""

    store: Store
    person: Person


@define
class AuditLog:
    """The audit log of a site's actions; `now` is monotonic, in seconds."""

    site: Site
    now: Callable[[], float] = time.monotonic
    _refused: Window = attribute(init=False)
    _writing: CapacityLimiter | None = attribute(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._refused = Window(self.now)

    @contextmanager
    def recording(self, request: Request, action: str, board: str = "", about: str = "") -> Iterator[Action]:
        """Record an action's outcome, done or not.

        Raises:
            HTTPException: 409, it cannot be done as things are.
            BoardlabError: of the action, or the results cannot be written.
        """
        person: Person = request.state.person
        with self.site.store(create=True) as store:
            act = Action(store, person, about=about)
            entry = {"person": person.name, "address": address(request), "board": board}
            try:
                with Audit(store).acting(act, action, **entry):
                    yield act
            except ConfigurationError as error:  # not as things are; the page says why
                raise HTTPException(409, str(error)) from error
            finally:
                self.site.refresh()

    def record(self, request: Request, action: str, person: str, outcome: str, board: str = "") -> None:
        """Record a login or another outcome.

        Where the results cannot be written, the entry goes to the program's log.
        """
        try:
            with self.site.store(create=True) as store:
                Audit(store).note(action, person=person, address=address(request), board=board, outcome=outcome)
        except BoardlabError as error:
            _log.warning(
                "%s of %s from %s: %s; not in the audit: %s", action, person, address(request), outcome, error
            )

    async def record_refusal(self, request: Request, action: str, person: str, outcome: str, board: str = "") -> None:
        """Record a refused action.

        At most `MOST_REFUSED` entries are made in `WINDOW_S`, since anybody can cause them.
        """
        requester: Person = getattr(request.state, "person", NOBODY)
        limits = {requester.name or origin(address(request)): MOST_REFUSED, "": MOST_REFUSED_IN_ALL}
        if any(self._refused.wait_s(key, most) for key, most in limits.items()):
            return
        for key, most in limits.items():
            self._refused.count(key, most)
        for key, most in limits.items():
            if self._refused.wait_s(key, most):
                outcome += (
                    f" (what else is refused {f'to {key} ' if key else ''}is not recorded for up to {WINDOW_S / 60:g} "
                    "min)"
                )
        if self._writing is None:
            self._writing = CapacityLimiter(1)  # a database that is locked takes one thread, and pages have the others
        await to_thread.run_sync(self.record, request, action, person, outcome, board, limiter=self._writing)

    def board(self, name: str) -> BoardNow:
        """A board of the lab.

        Raises:
            ConfigurationError: there is none of that name.
        """
        return reservations.board_of(self.site.look().lab.boards, name, "the wall")


def form(request: Request) -> Mapping[str, str]:
    """The fields of a form."""
    fields: Mapping[str, str] = request.state.form
    return fields


def field(request: Request, name: str, *, longest: int = _LONGEST, default: str = "") -> str:
    """A field of a form, without blanks at its ends.

    Raises:
        ConfigurationError: it is too long.
    """
    text = form(request).get(name, default).strip()
    if len(text) > longest:
        raise ConfigurationError(f"{name} has {len(text)} characters; at most {longest} fit")
    return text


def address(request: Request) -> str:
    """The client's address."""
    return request.client.host if request.client else ""


PAGE: Final = 100
_MOST: Final = 10_000  # of a file
Asked = Annotated[str, Query(max_length=200, pattern=WITHOUT_NUL)]
Before = Annotated[int | None, Query(ge=1, le=LAST_ID)]


def router(site: Site, renderer: Renderer) -> APIRouter:
    """The audit's addresses."""
    routes = APIRouter()

    def found(board: str, person: str, action: str, before: int | None, limit: int) -> list[Entry]:
        with site.store() as store:
            return Audit(store).entries(board=board, person=person, action=action, before=before, limit=limit)

    @routes.get("/audit", include_in_schema=False)
    def audit_page(board: Asked = "", person: Asked = "", action: Asked = "", before: Before = None) -> Response:
        entries = found(board, person, action, before, PAGE + 1)
        asked = {"board": board, "person": person, "action": action}
        more = entries[PAGE - 1].id if len(entries) > PAGE else None
        return renderer.page("audit.html.j2", entries=entries[:PAGE], asked=asked, more=more)

    @routes.get("/audit.csv", include_in_schema=False)
    def audit_csv(board: Asked = "", person: Asked = "", action: Asked = "", before: Before = None) -> Response:
        text = as_csv(found(board, person, action, before, _MOST))
        name = {"Content-Disposition": 'attachment; filename="audit.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=name)

    @routes.get("/api/v1/audit", responses=ANSWERS)
    def audit(
        board: Asked = "",
        person: Asked = "",
        action: Asked = "",
        before: Before = None,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = PAGE,
    ) -> dict[str, Any]:
        """Entries, the newest first, page by page.

        `next` is the `before` of the next page, null on the last one.
        """
        entries = found(board, person, action, before, limit + 1)
        shown = [document(entry) for entry in entries[:limit]]
        return {"entries": shown, "next": entries[limit - 1].id if len(entries) > limit else None}

    return routes
