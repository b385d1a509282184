"""The site of the documents in Chromium: every page on a screen and on a telephone, one light and one dark; `./run soak` has all four."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import page_looks
import pytest
from page_looks import Look, Seen
from support.atlength import LONG

REPOSITORY = Path(__file__).resolve().parents[2]
WIDTHS = (1400, 400)
OF_THE_THEME = "landmark-unique"  # Material's two menus have one name
AXE_AT = {"light": 1400, "dark": 400}
SCROLL = """[...document.querySelectorAll('.md-typeset__scrollwrap')].filter((box) => box.scrollWidth > box.clientWidth)
  .map((box) => box.textContent.trim().slice(0, 60))"""
TOGGLED = """
(() => {
  const schemes = [];
  for (const _ of document.querySelectorAll('[name=__palette]')) {
    schemes.push(document.body.dataset.mdColorScheme);
    document.querySelector('[data-md-component=palette] label:not([hidden])').click();
  }
  return [...schemes, document.body.dataset.mdColorScheme];
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as mkdocs builds it; its search finds nothing, since each page that is opened would index the whole site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=120, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    index = folder / "search" / "search_index.json"
    index.write_text(json.dumps({**json.loads(index.read_text(encoding="utf-8")), "docs": []}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def looks(site: Path) -> dict[Look, Seen]:
    """Every page, light on a screen and dark on a telephone, with axe-core; in the long form also the other way round, without."""
    pages = [f"/{'/'.join((*page.parent.relative_to(site).parts, ''))}" for page in sorted(site.rglob("index.html"))]
    listed = [
        Look(site, page, width, mode=mode, axe=width == at, ask=SCROLL)
        for page in pages
        for mode, at in AXE_AT.items()
        for width in (WIDTHS if LONG else (at,))
    ]
    return dict(zip(listed, page_looks.look(listed), strict=True))


def found(looks: dict[Look, Seen], what: str) -> dict[str, object]:
    """Where that attribute, or what that method returns, is not empty."""
    every = {f"{one.path} {one.width} px, {one.mode}": getattr(seen, what) for one, seen in looks.items()}
    values = {where: value() if callable(value) else value for where, value in every.items()}
    return {where: value for where, value in values.items() if value}


@pytest.mark.soak
def test_every_document_has_a_page(looks: dict[Look, Seen]) -> None:
    documents = list((REPOSITORY / "docs").rglob("*.md"))
    assert len({one.path for one in looks}) == len(documents) > 30


@pytest.mark.soak
def test_no_page_scrolls_sideways(looks: dict[Look, Seen]) -> None:
    assert {where: f"{seen.beyond} px: {seen.wide}" for where, seen in looks.items() if seen.beyond > 0} == {}


@pytest.mark.soak
def test_axe_finds_no_fault(looks: dict[Look, Seen]) -> None:
    every = {one.path: seen.axe_faults() for one, seen in looks.items()}
    ours = {path: [each for each in faults if not each.startswith(OF_THE_THEME)] for path, faults in every.items()}
    assert {path: faults for path, faults in ours.items() if faults} == {}


@pytest.mark.soak
def test_no_script_fails_and_no_file_is_missing(looks: dict[Look, Seen]) -> None:
    assert found(looks, "complaints") == {}


@pytest.mark.soak
def test_every_table_fits_on_a_screen(looks: dict[Look, Seen]) -> None:
    assert {one.path: seen.answer for one, seen in looks.items() if one.width == max(WIDTHS) and seen.answer} == {}


def test_a_page_that_is_too_wide_or_hard_to_read_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        "<!doctype html><html lang=en><title>x</title><main><h1 style='width: 500px'>wide</h1><p style='color: #ccc'>pale"
        "<script src=missing.js></script>",
        encoding="utf-8",
    )
    screen, telephone = page_looks.look([Look(tmp_path, "/", width, axe=width == 400) for width in WIDTHS])
    assert screen.beyond == 0
    assert telephone.beyond > 0
    assert telephone.wide == ["h1 wide"]
    assert any(fault.startswith("color-contrast") for fault in telephone.axe_faults())
    assert any("missing.js" in complaint for complaint in telephone.complaints)


@pytest.mark.soak
def test_the_page_is_light_or_dark_as_the_system_is_and_as_one_wants(site: Path) -> None:
    light, dark = page_looks.look([Look(site, "/", mode=mode, ask=TOGGLED) for mode in ("light", "dark")])
    assert light.answer == ["default", "default", "slate", "default"]
    assert dark.answer == ["slate", "default", "slate", "slate"]
