"""Writes the guide of a release from the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from attrs import evolve

from lab.errors import BoardlabError, ConfigurationError
from lab.guide.stored_runs import accepted_runs, is_of, release_names, sound_numbers
from lab.guide.write import figures, footnotes, page, rst_writer, stored_release, vendor_view
from lab.guide.write.entries import GuideRelease
from lab.host import process
from lab.judge.labels import precedes, same_release
from lab.results.records import PUBLISHED
from lab.results.retention import refer
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
    *,
    with_errors: bool = False,
    run_page: str = "",
    say: Callable[[str], None] = lambda _text: None,
) -> Iterator[Path]:
    """Write the files and return their paths as they are done.

    Args:
        with_errors: print numbers that a rule calls an error, too, with a mark.
        run_page: URL template of a run's page, with {run}, for links; empty: none.
        say: takes what was left out since cycles failed, and open regressions, one sentence each.

    Raises:
        ConfigurationError: no such release or board, or the folder cannot be written.
    """
    release = stored_release.collect(store, name, boards, is_judged=True)
    for text in release.failed:
        say(f"left out: {text}")
    for text in release.regressions:
        say(f"open regression of {text}; `lab judge accept` or `reject` of that run decides")
    corrected = view is GuideView.CORRECTED
    release = release if corrected else vendor_view.convert(release)
    release = footnotes.annotate(release, corrected=corrected, with_errors=with_errors)
    release = evolve(release, run_page=run_page)
    runs = {entry.evidence.run_id for entry in release.entries if entry.evidence.run_id is not None}
    try:
        refer(store, runs, name, process.actor())
    except BoardlabError as error:  # e.g. somebody who may only read
        say(f"its runs are not noted, and may be removed when they are old: {error}")
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
    accepted = accepted_runs(store)
    measured = [
        sound_numbers(store, run)[0]
        for run in accepted
        if run.kind != PUBLISHED
        and same_release(run.release, release.name)
        and any(is_of(run, board) for board in release.boards)
    ]
    earlier = {  # board -> its releases before this one
        board: release_names(run for run in accepted if is_of(run, board) and precedes(run.release, release.name))
        for board in release.boards
    }
    keys = sorted({key for names in earlier.values() for key in names})
    history = [
        stored_release.collect(
            store,
            next(names[key] for names in earlier.values() if key in names),
            [board for board, names in earlier.items() if key in names],
        )
        for key in keys
    ]
    trend = figures.chapters_over_releases([*history, release])
    return page.render(release, figures.draw_release(release, measured), trend)
