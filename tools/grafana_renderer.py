"""Grafana's panels without Grafana's server: its libraries from npm and a Chromium, in a folder beside the board's images.

    python tools/grafana_renderer.py        # sets it up, once for each tools/grafana/package-lock.json

`npm ci` takes what the lock file names, with its digests; none of its scripts run. The Chromium is one of these packages,
so that Debian's and Ubuntu's pictures are the same. `esbuild` makes one page of it. Whoever draws gets for each
drawing a picture and what a person would read in it: texts with their colours, links, rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from attrs import frozen

SOURCES: Final = Path(__file__).parent / "grafana"
LIMIT_S: Final = 600.0
_CHROMIUM: Final = Path("node_modules/@sparticuz/chromium/bin")
_UNPACK: Final = """
const fs = require('fs'), zlib = require('zlib');
for (const [from, to] of Object.entries(JSON.parse(process.argv[1]))) fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""


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


def cache() -> Path:
    """Where everything is that was downloaded; clones share it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    return home / "boardlab" / f"grafana-{digest[:12]}"


def prepare() -> Path:
    """The page, made if it is not there yet.

    Raises:
        SystemExit: node, npm or the network is missing; the message says what to do.
    """
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    texts = [path.read_bytes() for path in sorted(SOURCES.glob("*.js*")) if path.name != "package-lock.json"]
    page = folder / f"page-{hashlib.sha256(b''.join(texts)).hexdigest()[:12]}" / "index.html"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            _install(folder)
        if not page.exists():
            _bundle(folder, page)
    return page


def draw(jobs: Iterable[Job], into: Path) -> dict[str, dict[str, Any]]:
    """Draw: NAME.png in the folder, and for each name what stands in the picture.

    Raises:
        subprocess.CalledProcessError: Chromium did not; its words are in the error.
    """
    page, folder = prepare(), cache()
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
    order = into / "jobs.json"
    chromium = folder / "chromium"
    order.write_text(
        json.dumps(
            {
                "chromium": str(chromium / "chromium"),
                "libraries": str(chromium / "lib"),
                "fonts": str(chromium),
                "page": str(page),
                "modules": str(folder / "node_modules"),
                "jobs": listed,
            }
        ),
        encoding="utf-8",
    )
    _run([_program("node"), SOURCES / "draw.mjs", order], folder)
    return {Path(one["facts"]).stem: json.loads(Path(one["facts"]).read_text(encoding="utf-8")) for one in listed}


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, folder / name)
    words = [
        "ci",
        "--omit=dev",
        "--ignore-scripts",
        "--legacy-peer-deps",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    _run([_program("npm"), *words], folder)
    chromium = folder / "chromium"
    chromium.mkdir(exist_ok=True)
    packed = folder / _CHROMIUM
    wanted = {"chromium": "chromium.br", "lib.tar": "al2023.tar.br", "fonts.tar": "fonts.tar.br"}
    files = {str(packed / name): str(chromium / to) for to, name in wanted.items()}
    _run([_program("node"), "-e", _UNPACK, json.dumps(files)], folder)
    (chromium / "chromium").chmod(0o755)
    for name in ("lib.tar", "fonts.tar"):
        with tarfile.open(chromium / name) as archive:
            archive.extractall(chromium, filter="data")
        (chromium / name).unlink()
    shutil.rmtree(packed)  # 70 MB that are unpacked now
    (folder / "installed").touch()


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
        _run(
            [folder / "node_modules/.bin/esbuild", Path(name) / "page.jsx", *options, f"--outfile={made}/page.js"],
            folder,
        )
        (made / "index.html").write_text(
            '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css"><body><div id="root"></div>'
            '<script src="page.js"></script>',
            encoding="utf-8",
        )
        made.rename(page.parent)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        sys.exit(f"{name} is missing: ./run test -e drawn installs Node.js, or put version 18 or newer on PATH")
    return found


def _run(words: Iterable[str | Path], folder: Path) -> None:
    done = subprocess.run([*words], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    prepare()
