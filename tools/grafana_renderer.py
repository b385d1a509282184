"""Grafana's panels without Grafana's server: its libraries from npm, in a Chromium (npm_browser).

    python tools/grafana_renderer.py        # sets it up, once for each state of tools/grafana

`esbuild` makes one page of them. Whoever draws gets for each drawing a picture and what a person would read in it: texts
with their colours, links, rows.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import npm_browser
from attrs import frozen
from npm_browser import SOURCES


@frozen
class Job:
    """A drawing to make.

    Attributes:
        drawing: what grafana_queries.drawing() returned. name: of the files. mode: "light" or "dark".
        picture: whether a picture is wanted, too.
    """

    drawing: dict[str, Any]
    name: str
    width: int = 1400
    mode: str = "dark"
    picture: bool = True


def prepare() -> Path:
    """The page, made if it is not there yet.

    Raises:
        NotSetUpError: node, npm or its registry is missing; the message says what to do.
    """
    texts = [path.read_bytes() for path in sorted(SOURCES.glob("*.js*")) if path.name != "package-lock.json"]
    with ExitStack() as stack:
        folder = npm_browser.locked(stack)
        page = folder / f"page-{hashlib.sha256(b''.join(texts)).hexdigest()[:12]}" / "index.html"
        if not page.exists():
            _bundle(folder, page)
    return page


def draw(jobs: Iterable[Job], into: Path) -> dict[str, dict[str, Any]]:
    """Draw: NAME.png in the folder, and for each name what stands in the picture.

    Raises:
        NotSetUpError: Chromium did not; its words are in the error.
    """
    listed = []
    for job in jobs:
        drawing = into / f"{job.name}.drawing.json"
        drawing.write_text(json.dumps(job.drawing), encoding="utf-8")
        files = {
            "drawing": str(drawing),
            "png": str(into / f"{job.name}.png") if job.picture else "",
            "facts": str(into / f"{job.name}.json"),
        }
        listed.append({**files, "width": job.width, "mode": job.mode})
    npm_browser.drive(SOURCES / "draw.mjs", {"page": str(prepare()), "jobs": listed}, into)
    return {Path(one["facts"]).stem: json.loads(Path(one["facts"]).read_text(encoding="utf-8")) for one in listed}


def _bundle(folder: Path, page: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        made = Path(name) / "page"
        for source in SOURCES.glob("*.js*"):  # beside node_modules, where esbuild looks for what they import
            shutil.copy(source, name)
        options = [
            "--bundle",
            "--minify",
            "--jsx=automatic",
            "--loader:.woff2=dataurl",
            "--loader:.woff=empty",
            "--loader:.svg=dataurl",
        ]
        options += [
            "--loader:.ttf=empty",
            "--format=iife",
            '--define:process.env.NODE_ENV="production"',
            "--log-level=error",
        ]
        npm_browser.run(
            [folder / "node_modules/.bin/esbuild", Path(name) / "page.jsx", *options, f"--outfile={made}/page.js"],
            folder,
        )
        (made / "index.html").write_text(
            '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css"><body><div id="root"></div>'
            '<script src="page.js"></script>',
            encoding="utf-8",
        )
        made.rename(page.parent)


if __name__ == "__main__":
    try:
        prepare()
    except npm_browser.NotSetUpError as error:
        sys.exit(str(error))
