"""HTML of pages, from their templates, and server-sent events (HTML Standard, 9.2)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from attrs import define, field
from fastapi import Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from jinja2 import Environment

from lab.terminal import environment
from lab.web.auth import NOBODY, Person

ALIVE_S: Final = 15.0  # a comment so often keeps proxies from ending a quiet stream
ALIVE: Final = ": alive\n\n"
STILL_S: Final = 2.0  # so often a stream asks whether its reader may still look
IS_HEAD: Final = "boardlab.head"  # in the scope of a request that the middleware answers as GET
Still: TypeAlias = Callable[[], bool]
_PROGRAM: Final = f"boardlab {version('boardlab')}"


@define
class Renderer:
    """The templates of the site, and those shared with the report.

    Attributes:
        documents: the site has boardlab's documents.
    """

    documents: bool = False
    _environment: Environment = field(factory=lambda: environment("lab.web", "lab.figures"))
    _person: ContextVar[Person] = field(factory=lambda: ContextVar("person", default=NOBODY), init=False)

    @property
    def person(self) -> Person:
        """The person of the current request."""
        return self._person.get()

    def show_to(self, person: Person) -> None:
        """Make the pages of this request for a person."""
        self._person.set(person)

    def text(self, template: str, **shown: Any) -> str:
        """A part of a page."""
        return self._environment.get_template(template).render(
            program=_PROGRAM, person=self.person, documents=self.documents, **shown
        )

    def macro(self, template: str, name: str, *shown: Any) -> str:
        """The HTML that a template's macro makes of its arguments."""
        return str(getattr(self._environment.get_template(template).module, name)(*shown))

    def page(self, template: str, *, status: int = 200, **shown: Any) -> Response:
        """A whole page."""
        return HTMLResponse(self.text(template, status=status, **shown), status)


def events(body: AsyncGenerator[str | bytes, None], request: Request | None = None) -> StreamingResponse:
    """An answer of server-sent events, which ends when its reader goes.

    That to HEAD ends after the first event.
    """
    if request is not None and request.scope.get(IS_HEAD):
        body = _first(body)
    return StreamingResponse(body, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _first(body: AsyncGenerator[str | bytes, None]) -> AsyncGenerator[str | bytes, None]:
    async with contextlib.aclosing(body):
        async for piece in body:
            yield piece
            return


def event(name: str, data: str) -> str:
    """One event. A text with several lines needs a `data:` for each."""
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return f"event: {name}\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
