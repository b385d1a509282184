"""The report in Chromium: whole on a desk and on a telephone, light and dark, to be read by everyone, leading to its evidence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import page_looks
import pytest
from page_looks import Look, Seen, Step
from support import reported_runs
from support.atlength import LONG

DESK, TELEPHONE = 1400, 400
WIDTHS = (DESK, TELEPHONE)
MODES = ("light", "dark")
FOLDS = "for (const fold of [...document.querySelectorAll('details')].slice({part})) fold.open = true"
ALL_OPEN, SOME_OPEN = Step("run", FOLDS.format(part="")), Step("run", FOLDS.format(part="0, 5"))
LOOKED_AT = ("against-run", "failed", "low-power", "sections")  # by axe-core: what the others show is in one of these
# What is seen at the upper left corner of an element in place of it; empty where that is the element, or a part of it.
COVERED = """
const covered = (element) => {
  const box = element.getBoundingClientRect();
  const seen = document.elementFromPoint(box.left + 2, box.top + 2);
  return element.contains(seen) ? '' : seen ? seen.outerHTML.slice(0, 200) : 'nothing: it is not in the window';
};
"""
BOXES = """
[...document.querySelectorAll("{selector}")].map((element) => {{
  const {{ left, right }} = element.getBoundingClientRect();
  return {{ left, right, text: element.innerText ?? '', seen: element.checkVisibility() }};
}})
"""
TARGET = f"""(() => {{ {COVERED}
  const target = document.querySelector('p:target');
  if (!target) {{ return {{ open: false, title: location.hash }}; }}
  const fold = target.closest('details');
  return {{ open: fold.open, title: fold.querySelector('summary').innerText, log: fold.querySelector('pre').innerText, covered: covered(target) || covered(fold.querySelector('summary')) }};
}})()"""
CONTENTS = f"""(() => {{ {COVERED}
  const contents = document.querySelector('nav');
  scrollTo(0, document.body.scrollHeight / 2);
  const found = [{{ name: 'after scrolling', top: contents.getBoundingClientRect().top, covered: covered(contents) }}];
  for (const link of contents.querySelectorAll('a')) {{
    link.click();
    const target = document.querySelector(':target');
    found.push({{ name: link.innerText, top: contents.getBoundingClientRect().top, covered: target ? covered(target) : 'it leads nowhere' }});
  }}
  return found;
}})()"""
DOTS = {  # where -> in which cycle's fold it leads, and what its log says
    "SD (virtio-blk), cycle 5: ": ("cycle 5:", "login"),
    "SD (virtio-blk), cycle 7: hang": ("cycle 7: hang_kernel", "probing"),
}


def dot(name: str) -> str:
    """The selector of the mark of that cycle."""
    return f"svg a[aria-label^='{name}'] :is(circle, text)"


def boxes(selector: str) -> str:
    """Asks where elements are from left to right, what they say, and whether they are seen."""
    return BOXES.format(selector=selector)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports."""
    folder = tmp_path_factory.mktemp("reports")
    reported_runs.write(folder)
    return folder


@pytest.fixture(scope="module")
def fits(folder: Path) -> dict[tuple[str, int, str], Seen]:
    """Every report, first as it is opened, then with its folds open: (name, width, "closed" or "open")."""
    looks = {
        (name, width, state): Look(folder, f"/{name}.html", width, steps=steps)
        for name in reported_runs.REPORTS
        for state, steps in (("closed", ()), ("open", (ALL_OPEN,)))
        for width in WIDTHS
    }
    return dict(zip(looks, page_looks.look(looks.values()), strict=True))


@pytest.fixture(scope="module")
def asked(folder: Path) -> dict[str, Any]:
    """What the pages answer, by a word for each question and the width."""
    looks = {
        **{
            f"± {name}": Look(folder, f"/{name}.html", TELEPHONE, ask=boxes("td[data-label='±']"))
            for name in ("boot", "low-power", "sections")
        },
        **{
            f"verdict {width}": Look(folder, "/against-run.html", width, ask=boxes("section:has(#verdict) tr.bad > *"))
            for width in WIDTHS
        },
        **{
            f"{where} {width}": Look(folder, "/boot.html", width, steps=(Step("click", dot(where)),), ask=TARGET)
            for where in DOTS
            for width in WIDTHS
        },
        "keyboard": Look(
            folder,
            "/boot.html",
            steps=(Step("focus", "svg a"), Step("press", "Tab"), Step("press", "Enter")),
            ask=TARGET,
        ),
        **{
            f"contents {name} {width}": Look(folder, f"/{name}.html", width, steps=(Step("run", "0"),), ask=CONTENTS)
            for name in ("boot", "sections")
            for width in WIDTHS
        },
        **{
            f"paper {mode}": Look(
                folder, "/boot.html", mode=mode, ask="getComputedStyle(document.body).backgroundColor"
            )
            for mode in MODES
        },
        "dots": Look(folder, "/boot.html", TELEPHONE, ask=boxes("svg .dot circle")),
        "stages": Look(folder, "/boot.html", TELEPHONE, ask=boxes(".lane i")),
    }
    return {what: seen.answer for what, seen in zip(looks, page_looks.look(looks.values()), strict=True)}


def outside(found: list[dict[str, Any]], width: int) -> list[dict[str, Any]]:
    """Those that are not seen, or not whole."""
    assert found
    return [one for one in found if not one["seen"] or one["left"] < 0 or one["right"] > width]


def test_no_report_scrolls_sideways(fits: dict[tuple[str, int, str], Seen]) -> None:
    assert {where: f"{seen.beyond} px: {seen.wide}" for where, seen in fits.items() if seen.beyond > 0} == {}


def test_no_report_asks_for_anything_but_itself_nor_has_an_error(fits: dict[tuple[str, int, str], Seen]) -> None:
    assert {where: seen.complaints for where, seen in fits.items() if seen.complaints} == {}
    assert {(name, *seen.asked) for (name, _, _), seen in fits.items()} == {
        (name, f"/{name}.html") for name in reported_runs.REPORTS
    }


@pytest.mark.longer
def test_axe_finds_no_fault(folder: Path) -> None:
    looks = {
        (name, width, mode): Look(folder, f"/{name}.html", width, mode=mode, steps=(SOME_OPEN,), axe=True)
        for name in LOOKED_AT
        for mode, at in zip(MODES, WIDTHS, strict=True)
        for width in (WIDTHS if LONG else (at,))
    }
    seen = dict(zip(looks, page_looks.look(looks.values()), strict=True))
    assert {where: one.axe_faults() for where, one in seen.items() if one.axe_faults()} == {}


def test_dark_is_dark_and_light_is_light(asked: dict[str, Any]) -> None:
    light, dark = (max(map(int, re.findall(r"\d+", asked[f"paper {mode}"])[:3])) for mode in MODES)
    assert dark < 64
    assert light > 192


@pytest.mark.parametrize("name", ["boot", "low-power", "sections"])
def test_each_number_has_its_uncertainty_beside_it_on_a_telephone(asked: dict[str, Any], name: str) -> None:
    cells = asked[f"± {name}"]
    assert outside(cells, TELEPHONE) == []
    assert [cell["text"] for cell in cells if not re.fullmatch(r"\d+(\.\d+)?", cell["text"].strip())] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_verdict_is_whole(asked: dict[str, Any], width: int) -> None:
    cells = asked[f"verdict {width}"]
    assert outside(cells, width) == []
    said = " ".join(cell["text"] for cell in cells)
    assert "Boot time, OSPI (CFI flash)" in said
    assert "regression" in said


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("where", DOTS)
def test_a_dot_leads_to_its_part_of_the_log(asked: dict[str, Any], where: str, width: int) -> None:
    title, says = DOTS[where]
    found = asked[f"{where} {width}"]
    assert found["open"]
    assert found["title"].startswith(title)
    assert says in found["log"]
    assert found["covered"] == ""


def test_a_dot_is_reached_and_followed_by_the_keyboard(asked: dict[str, Any]) -> None:
    assert asked["keyboard"]["open"]
    assert asked["keyboard"]["title"].startswith("cycle 2:")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["boot", "sections"])
def test_the_contents_stay_in_sight_and_hide_no_heading_that_they_lead_to(
    asked: dict[str, Any], name: str, width: int
) -> None:
    found = asked[f"contents {name} {width}"]
    assert len(found) > 4
    assert [one for one in found if one["covered"] or abs(one["top"]) > 1] == []


def test_on_a_telephone_the_figures_have_room_for_every_cycle_and_every_stage(asked: dict[str, Any]) -> None:
    assert len(asked["dots"]) == 60
    assert outside(asked["dots"], TELEPHONE) == []
    assert len(asked["stages"]) == 2 * 3 * 7, "stages of three media, and those of the run before"
    assert outside(asked["stages"], TELEPHONE) == []
