"""Writes the guide of a release from the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from lab.errors import ConfigurationError
from lab.guide import figures, page, rst_writer, stored_release, vendor
from lab.guide.entries import GuideRelease
from lab.judge.labels import precedes, release_key
from lab.results.records import PUBLISHED
from lab.results.store import Store

_NOT_IN_NAMES = re.compile(r"[^\w.+-]+")


class GuideView(StrEnum):
    """Form of the numbers that the vendor computes in its own way."""

    CORRECTED = "corrected"
    VENDOR = "vendor"


def write(
    store: Store,
    name: str,
    boards: Sequence[str],
    folder: Path,
    forms: Iterable[str],
    view: GuideView = GuideView.CORRECTED,
    say: Callable[[str], None] = lambda _text: None,
) -> Iterator[Path]:
    """Write the files and return their paths as they are done.

    Args:
        say: takes what was left out since cycles failed, one sentence each.

    Raises:
        ConfigurationError: no such release or board, or the folder cannot be written.
    """
    release = stored_release.release(store, name, boards)
    for text in release.failed:
        say(f"left out: {text}")
    if view is GuideView.VENDOR:
        release = vendor.view(release)
    for form in forms:
        text = rst_writer.write(release) if form == "rst" else _page(store, release)
        path = folder / f"performance-guide-{_NOT_IN_NAMES.sub('-', name)}.{form}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be written: {error.strerror}; choose another folder with -o"
            ) from error
        yield path


def _page(store: Store, release: GuideRelease) -> str:
    measured = [
        stored_release.measured(store, run)[0]
        for run in stored_release.counting(store)
        if run.kind != PUBLISHED
        and release_key(run.release) == release_key(release.name)
        and any(stored_release.is_of(run, board) for board in release.boards)
    ]
    had = {
        board: {
            release_key(name): name for name in stored_release.releases(store, board) if precedes(name, release.name)
        }
        for board in release.boards
    }
    earlier = sorted({key for keys in had.values() for key in keys})
    history = [
        stored_release.release(
            store, next(keys[key] for keys in had.values() if key in keys), [b for b in had if key in had[b]]
        )
        for key in earlier
    ]
    trend = figures.chapters_over_releases([*history, release])
    return page.render(release, figures.of_release(release, measured), trend)
