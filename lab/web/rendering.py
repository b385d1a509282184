"""From what a page shows to its HTML."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import Any, Final

from attrs import define, field
from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from lab.shown import plain_text

_PROGRAM: Final = f"boardlab {version('boardlab')}"


def _plain(value: object) -> object:
    """What a template is given: texts of boards and stores turn no reading direction in a page either."""
    return plain_text(value) if type(value) is str else value


def _environment() -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader("lab.web"), PackageLoader("lab.results")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
    )


@define
class Renderer:
    """The templates of the site, and those that it shares with the report."""

    _environment: Environment = field(factory=_environment)

    def text(self, template: str, **shown: Any) -> str:
        """A part of a page."""
        return self._environment.get_template(template).render(program=_PROGRAM, **shown)

    def page(self, template: str, *, status: int = 200, **shown: Any) -> Response:
        """A whole page."""
        return HTMLResponse(self.text(template, status=status, **shown), status)


def unless_known(request: Request, body: str) -> Response:
    """A page, or only the word that the browser has it already (RFC 9110, 13.1.2)."""
    etag = f'"{hashlib.sha256(body.encode()).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"ETag": etag})
    return HTMLResponse(body, headers={"ETag": etag, "Cache-Control": "no-cache"})
