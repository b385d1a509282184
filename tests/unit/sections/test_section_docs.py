"""docs/benchmarks.md lists every section and every option of the environment."""

from __future__ import annotations

from pathlib import Path

import attrs
import benchmark_table
from support import guide_family

from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.sections import ALL

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_page_lists_every_section_under_its_chapter() -> None:
    shown = PAGE.partition("<!-- sections -->\n")[2].partition("<!-- end of sections -->")[0]
    chapters: dict[str, list[str]] = {}
    for section in ALL:
        chapters.setdefault(section.chapter, []).append(f"`{section.name}`")
    assert shown.splitlines()[2:] == [f"| {chapter} | {', '.join(names)} |" for chapter, names in chapters.items()]


def test_every_table_of_the_five_guides_has_somebody_who_measures_it(tmp_path: Path) -> None:
    rows = benchmark_table.tables(guide_family.family(tmp_path))
    assert len(rows) == 74
    nobody = [
        place
        for place, row in rows.items()
        if not row.sections and not benchmark_table.ELSEWHERE.keys() & row.metrics.keys()
    ]
    assert nobody == []


def test_the_page_names_every_section_that_is_measured_once_with_the_reason() -> None:
    shown = PAGE.partition("<!-- once -->\n")[2].partition("<!-- end of once -->")[0].strip()
    reasons: dict[str, list[str]] = {}
    for section in ALL:
        if section.once:
            reasons.setdefault(section.once, []).append(f"`{section.name}`")
    rows = [f"| {', '.join(names)} | {why} |" for why, names in reasons.items()]
    assert shown == "\n".join(["| Section | Measured once, since |", "|---|---|", *rows])


def test_the_page_names_every_option_of_the_environment() -> None:
    example = PAGE.partition("benchmarks:\n")[2].partition("tester:                             #")[0]
    assert {line.split(":")[0].strip() for line in example.splitlines() if ":" in line} >= {
        f.name for f in attrs.fields(LabSite)
    }
