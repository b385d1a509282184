"""A Chromium from npm, and what draws and checks pages in it, in a folder beside the board's images.

    python tools/npm_browser.py        # sets it up, once for each tools/grafana/package-lock.json

`npm ci` takes what the lock file names, with its digests; none of its scripts run. The Chromium is one of these packages:
Debian's and Ubuntu's pictures are the same then, and Ubuntu has no Chromium in apt that runs in a container.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

SOURCES: Final = Path(__file__).parent / "grafana"
LIMIT_S: Final = 600.0
_CHROMIUM: Final = Path("node_modules/@sparticuz/chromium/bin")
_UNPACK: Final = """
const fs = require('fs'), zlib = require('zlib');
for (const [from, to] of Object.entries(JSON.parse(process.argv[1]))) fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)));
"""
_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  {folders}
  <cachedir>{cache}</cachedir>
  {aliases}
</fontconfig>
"""
_FAMILIES: Final = {
    "Open Sans": ("sans-serif", "serif", "system-ui", "Arial", "Helvetica", "Helvetica Neue", "Roboto", "Segoe UI"),
    "DejaVu Sans Mono": ("monospace", "Courier New", "SFMono-Regular", "Consolas", "Menlo"),
}
_NO_NETWORK: Final = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT|E(?:403|407|50\d))\b"
)


class NotSetUpError(RuntimeError):
    """Node.js or npm's registry is missing, or what came from it does not work; the message says what to do."""


def cache() -> Path:
    """Where everything is that was downloaded; clones share it."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    return home / "boardlab" / f"grafana-{digest[:12]}"


def locked(stack: ExitStack) -> Path:
    """The folder, for one process alone until the stack ends; filled, if nobody has done so yet.

    Raises:
        NotSetUpError: node, npm or its registry is missing.
    """
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    lock = stack.enter_context((folder / "lock").open("w"))
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not (folder / "installed").exists():
        _install(folder)
    return folder


def drive(program: Path, order: dict[str, Any], into: Path) -> None:
    """Run one of the programs of tools/grafana, which open Chromium, with that order; its file stays in the folder.

    Raises:
        NotSetUpError: Chromium did not start, or the program failed; its words are in the error.
    """
    with ExitStack() as stack:
        folder = locked(stack)
    chromium = folder / "chromium"
    file = into / f"{program.stem}.order.json"
    (into / "fonts.conf").write_text(_fonts(chromium), encoding="utf-8")
    browser = {"chromium": str(chromium / "chromium"), "libraries": str(chromium / "lib"), "fonts": str(into)}
    file.write_text(json.dumps({**browser, "modules": str(folder / "node_modules"), **order}), encoding="utf-8")
    run([program_of("node"), program, file], folder)


def program_of(name: str) -> str:
    """Where a program of Node.js is.

    Raises:
        NotSetUpError: it is not on PATH.
    """
    found = shutil.which(name)
    if found is None:
        raise NotSetUpError(
            f"{name} is missing: `./run setup test` installs Node.js, or put version 18 or newer on PATH"
        )
    return found


def run(words: Iterable[str | Path], folder: Path) -> None:
    """Run a program in that folder.

    Raises:
        NotSetUpError: it failed.
    """
    done = subprocess.run([*words], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if not done.returncode:
        return
    command = " ".join(map(str, words))
    if (cause := _NO_NETWORK.search(done.stderr)) and " ci " in f"{command} ":
        raise NotSetUpError(
            f"npm's registry cannot be reached ({cause[0]}), and npm's cache lacks a package of tools/{SOURCES.name}/package-lock.json.\n"
            "Is the network up? Does npm know your proxy or mirror: `npm config set registry URL`? Then: ./run setup test"
        )
    raise NotSetUpError(f"{command} ended with {done.returncode}:\n{done.stderr[-3000:]}")


def _fonts(chromium: Path) -> str:
    """The same fonts on each machine: the one that came with Chromium, and matplotlib's for code and signs."""
    folders = (chromium / "fonts", Path(mpl.get_data_path()) / "fonts" / "ttf")
    aliases = (
        f'<match><test name="family"><string>{other}</string></test><edit name="family" mode="prepend" binding="strong">'
        f"<string>{family}</string></edit></match>"
        for family, others in _FAMILIES.items()
        for other in others
    )
    return _FONTS.format(
        folders="\n  ".join(f"<dir>{one}</dir>" for one in folders),
        aliases="\n  ".join(aliases),
        cache=chromium / "fonts-cache",
    )


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name, folder / name)
    words = [
        "ci",
        "--prefer-offline",
        "--omit=dev",
        "--ignore-scripts",
        "--legacy-peer-deps",
        "--no-audit",
        "--no-fund",
    ]
    run([program_of("npm"), *words, "--loglevel=error"], folder)
    chromium = folder / "chromium"
    chromium.mkdir(exist_ok=True)
    packed = folder / _CHROMIUM
    wanted = {"chromium": "chromium.br", "lib.tar": "al2023.tar.br", "fonts.tar": "fonts.tar.br"}
    files = {str(packed / name): str(chromium / to) for to, name in wanted.items()}
    run([program_of("node"), "-e", _UNPACK, json.dumps(files)], folder)
    (chromium / "chromium").chmod(0o755)
    for name in ("lib.tar", "fonts.tar"):
        with tarfile.open(chromium / name) as archive:
            archive.extractall(chromium, filter="data")
        (chromium / name).unlink()
    shutil.rmtree(packed)  # 70 MB that are unpacked now
    (folder / "installed").touch()


def main() -> None:
    """Set it up."""
    try:
        with ExitStack() as stack:
            locked(stack)
    except NotSetUpError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
