"""Pages in Chromium (npm_browser): what stands out of the window, what axe-core finds, and pictures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import npm_browser
from attrs import asdict, field, frozen


@frozen
class Step:
    """What a person does on a page: "click" or "focus" on a selector, "press" a key, "type" a text; "send" clicks what sends a form, which must not be refused; "wait" for a selector; "run" evaluates JavaScript;
    "walk" presses Tab through the page, at most so many times, and leaves in `walked` what had the focus, and whether that showed."""

    does: str
    on: str


@frozen
class Look:
    """A page to open. Looks at the same page in the same mode that follow each other open it once and change the window; one with
    steps has a page of its own.

    Attributes:
        root: the folder of the files, or the address of a server, e.g. "http://127.0.0.1:9880"; nothing else is loaded. path: the page's, from there, e.g. "/farm/" or "/report.html".
        width, height: of the window, in px. mode: "light" or "dark". scripts: whether the page's own JavaScript runs.
        steps: are taken before all that follows.
        axe: whether axe-core looks at it. ask: JavaScript to evaluate in the page.
        picture: the file of a picture; empty: none. whole: the picture shows the whole page, not only the window.
    """

    root: Path | str
    path: str
    width: int = 1400
    height: int = 800
    mode: str = "light"
    scripts: bool = True
    steps: tuple[Step, ...] = ()
    axe: bool = False
    ask: str = ""
    picture: str = ""
    whole: bool = False


@frozen
class Seen:
    """What a look found.

    Attributes:
        beyond: px by which the page can be scrolled to the right. wide: what stands there.
        shifts: score of each layout shift since the page was opened, and what it moved (Layout Instability, W3C); none that a person's own step made.
        faults: axe-core's. complaints: errors of scripts and files that are missing, since the page was opened.
        asked: all that the page asked for since then, itself first.
        answer: what `ask` returned.
    """

    beyond: int
    wide: list[str]
    faults: list[dict[str, Any]] = field(repr=False)
    shifts: list[tuple[float, str]]
    complaints: list[str]
    asked: list[str]
    answer: Any

    def axe_faults(self) -> list[str]:
        """All that axe-core found, and where."""
        return [f"{one['id']} ({one['help']}): {node}" for one in self.faults for node in one["nodes"]]


def look(looks: Iterable[Look]) -> list[Seen]:
    """Open the pages, all in one Chromium; what was found, in the order of the looks.

    Raises:
        NotSetUpError: Chromium did not start, or a page did not load.
    """
    listed = [{**asdict(one), "root": str(one.root)} for one in looks]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        npm_browser.drive(npm_browser.SOURCES / "look.mjs", {"found": str(found), "looks": listed}, Path(folder))
        return [Seen(**one) for one in json.loads(found.read_text(encoding="utf-8"))]
