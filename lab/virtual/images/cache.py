"""Cache of image folders under $XDG_CACHE_HOME/boardlab, named by recipe hash.

Boards work on copies. So the build of a set removes older sets of its name that were unused for two weeks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from lab.errors import LabStableError

MANIFEST = "manifest.json"
KEPT_S = 14 * 24 * 3600  # since somebody asked for it

Report = Callable[[str], None]
"""Takes one line for the person who waits."""

Builder = Callable[[Path], Mapping[str, object]]
"""Fills the folder it is given; returns what is worth knowing of its inputs, for the manifest."""


def default_root() -> Path:
    """$XDG_CACHE_HOME/boardlab/images, or under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "boardlab" / "images"


def recipe_hash(*sources: str, **inputs: object) -> str:
    """Hash over source files, data files and other inputs.

    Args:
        sources: Python modules, and packages with all that is in them.

    Raises:
        ModuleNotFoundError: there is no such source.
    """
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode())
    for name in sources:
        parent, _, last = name.rpartition(".")
        folder = Path(str(resources.files(parent)))
        module = folder / f"{last}.py"
        if not module.is_file() and not (folder / last).is_dir():
            raise ModuleNotFoundError(f"a recipe names {name}, which is not there", name=name)
        for path in [module] if module.is_file() else sorted((folder / last).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{parent}/{path.relative_to(folder)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def obtain(name: str, recipe: str, build: Builder, *, root: Path, report: Report) -> Path:
    """The folder `name`-`recipe` of the cache, built when it is missing.

    A folder is built aside and renamed when it is whole, so that a half-built one is never used. Of two builders
    the second waits for the first.

    Raises:
        LabError, ConfigurationError: from the builder.
        LabStableError: the cache cannot be written, e.g. since the disk is full.
    """
    target = root / f"{name}-{recipe}"
    if target.is_dir():
        with contextlib.suppress(OSError):  # somebody else's cache, or one that is mounted read-only
            os.utime(target)
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f".{name}.lock", report):
            if not target.is_dir():
                _build(target, build)
                _forget(name, root)
    except OSError as error:
        raise LabStableError(
            f"cannot build {target}: {error.strerror or error}; free space there, or set XDG_CACHE_HOME to another disk",
            failure="image_build",
        ) from error
    return target


def _build(target: Path, build: Builder) -> None:
    aside = target.with_name(f".{target.name}.building")
    shutil.rmtree(aside, ignore_errors=True)  # rest of a killed builder
    aside.mkdir()
    try:
        facts = build(aside)
        files = {path.name: _fingerprint(path) for path in sorted(aside.iterdir())}
        (aside / MANIFEST).write_text(json.dumps({**facts, "files": files}, indent=2, sort_keys=True) + "\n")
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _forget(name: str, root: Path) -> None:
    """Remove the sets of this name that were not asked for lately."""
    oldest = time.time() - KEPT_S
    for found in root.iterdir():
        if found.name.rpartition("-")[0] == name and found.stat().st_mtime < oldest:
            shutil.rmtree(found, ignore_errors=True)


def _fingerprint(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": path.stat().st_size}


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("Waiting for another process that builds the same images")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
