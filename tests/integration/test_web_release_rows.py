"""What was judged of a release, row by row, in a real Chromium: it fits a telephone, and names are text whatever they are."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import page_looks
from page_looks import Look, Seen
from support.farm_store import fill
from support.web_serving import serving

from lab.host.clock import utc_now
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.web.site import Site

NAME = "<img src=x onerror='window.hacked=1'>\u202e\x1b]0;title\x07\"'&"
RELEASES = (f"1 {NAME}", f"2 {NAME}")
ROWS = """
(() => {
  const rows = [...document.querySelectorAll('section tbody tr')];
  return { hacked: window.hacked ?? null, pictures: document.images.length, rows: rows.length, text: document.body.textContent,
    odd: /[\\u202e\\u001b\\u0007]/.test(document.body.textContent), seen: rows.every((row) => row.getBoundingClientRect().right <= innerWidth) };
})()
"""


def measured(store: Store, release: str, value: float) -> None:
    """A run of a board, with names of all kinds, whose values are about so large."""
    run = store.begin_run("boot", NAME, NAME, release, plan={"cycles": 8}, provenance={NAME: NAME}).id
    for cycle in range(1, 9):
        sample = SampleRecord("boot.time", {"medium": NAME, NAME: NAME}, value + cycle / 1000, 0.001)
        params = {"medium": NAME}
        store.record_attempt(run, AttemptRecord(cycle, 1, params, "ok", None, None, NAME, utc_now(), 6.0, (sample,)))
    store.finish_run(run, "completed")


def looked(database: Path, *pages: str) -> list[Seen]:
    """What a telephone shows of these pages, each with rows that the judge called something."""
    with serving(Site(str(database), runtime=database.parent / "runtime", folder=database.parent)) as address:
        return page_looks.look([Look(address, page, width=400, ask=ROWS) for page in pages])


def test_the_rows_of_a_release_fit_a_telephone(tmp_path: Path) -> None:
    fill(tmp_path / "results.db", boards=2, metrics=6, samples=4, releases=4)
    (seen,) = looked(tmp_path / "results.db", "/releases/04.00?against=03.00&against=01.00")
    assert seen.answer["rows"] >= 2 * 2
    assert seen.answer["seen"], "no row goes beyond the window"
    assert (seen.beyond, seen.wide, seen.complaints) == (0, [], [])


def test_names_of_all_kinds_are_text_in_the_rows_of_a_verdict(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        for release, value in zip(RELEASES, (2.0, 9.0), strict=True):
            measured(store, release, value)
    old, new = (quote(release, safe="") for release in RELEASES)
    found = looked(tmp_path / "results.db", f"/releases/{new}?against={old}", "/runs/2")
    for seen in found:
        assert (seen.answer["hacked"], seen.answer["pictures"], seen.answer["odd"]) == (None, 0, False)
        assert "<img src=x onerror='window.hacked=1'>" in seen.answer["text"]
        assert (seen.beyond, seen.complaints) == (0, [])
    assert found[0].answer["rows"] > 0
    assert "worse" in found[0].answer["text"]
