"""The page of a comparison in Chromium: whole on a desk and on a telephone, light and dark, and to be read by everyone."""

from __future__ import annotations

from pathlib import Path

import page_looks
import pytest
from page_looks import Look, Seen, Step
from support import guide_family

from lab.guide import measurements
from lab.guide.compare import comparison as compare
from lab.guide.read import reader
from lab.guide.write import comparison_page

WIDTHS, MODES = (1400, 400), ("light", "dark")
OPEN = Step("run", "for (const fold of [...document.querySelectorAll('details')].slice(0, 4)) fold.open = true")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, str], Seen]:
    """Two guides of the family compared, by width and mode."""
    folder = tmp_path_factory.mktemp("comparison")
    paths = guide_family.family(folder)
    both = [measurements.of_guide(reader.read(paths[name])) for name in ("am62x-09.02.rst", "am62x-11.01.rst")]
    text = comparison_page.html(compare.compare(both[0], both[1], "am62xx_sk-fs"))
    (folder / "page.html").write_text(text, encoding="utf-8")
    looks = [
        Look(Path(folder), "/page.html", width, mode=mode, steps=(OPEN,), axe=True)
        for mode in MODES
        for width in WIDTHS
    ]
    return {(one.width, one.mode): found for one, found in zip(looks, page_looks.look(looks), strict=True)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_can_be_read_by_everyone(seen: dict[tuple[int, str], Seen], width: int, mode: str) -> None:
    found = seen[width, mode]
    assert (found.beyond, found.wide) == (0, [])
    assert found.axe_faults() == []
    assert found.complaints == []
