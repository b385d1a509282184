"""HTML of pages, from their templates."""

from __future__ import annotations

from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final

from attrs import define, field
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment

from lab.terminal import environment
from lab.web.auth import NOBODY, Person

_PROGRAM: Final = f"boardlab {version('boardlab')}"


@define
class Renderer:
    """The templates of the site, and those shared with the report."""

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
        return self._environment.get_template(template).render(program=_PROGRAM, person=self.person, **shown)

    def page(self, template: str, *, status: int = 200, **shown: Any) -> Response:
        """A whole page."""
        return HTMLResponse(self.text(template, status=status, **shown), status)
