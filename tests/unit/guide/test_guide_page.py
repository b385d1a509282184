"""A release as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from attrs import evolve
from support import recorded_run
from support.facts import missing_facts
from support.guide_family import import_guide, mini, table
from support.guide_library import NOW, SK, reread

from lab.guide.write import compose, page, rst_writer, stored_release, writer
from lab.guide.write.entries import EntryProvenance, GuideEntry, GuideRelease, Origin, summarise_boards
from lab.results import Store, open_store


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.cells: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.ids += [named["id"]] if "id" in named else []
        self.targets += [named[name] for name in ("href", "src") if name in named]
        if tag == "a" and "title" in named:
            self.cells.append((named["href"], named["title"]))


@pytest.fixture(scope="module")
def written_page(measured: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    (path,) = writer.write(measured, "11.01", [SK, "am62xx_lp_sk-fs"], tmp_path_factory.mktemp("out"), ["html"])
    return path.read_text(encoding="utf-8")


def test_the_page_needs_no_network_and_every_number_leads_to_its_evidence(written_page: str) -> None:
    links = _Links()
    links.feed(written_page)
    assert [target for target in links.targets if not target.startswith("#")] == []
    assert "@import" not in written_page
    assert "url(http" not in written_page
    assert len(links.ids) == len(set(links.ids))
    assert {target.removeprefix("#") for target in links.targets} <= set(links.ids)
    assert len(links.cells) > 900
    assert len({href for href, _ in links.cells}) == len(links.cells)


def test_the_summary_is_a_table_with_each_boards_boots(written_page: str) -> None:
    summary = written_page.partition('id="summary"')[2].partition("</table>")[0]
    head = re.findall(r"<th[^>]*>([^<]*)</th>", summary.partition("</thead>")[0])
    assert head[0] == "Board"
    assert head[-4:] == ["Numbers", "Measured here", "With a note", "Not printed"]
    assert {text for text in head if text.startswith("Boot from ")} >= {"Boot from SD", "Boot from EMMC"}
    rows = re.findall(r"<tr>(.*?)</tr>", summary.partition("<tbody>")[2], re.DOTALL)
    assert rows
    assert all(row.count("<td ") == len(head) - 1 for row in rows)


def test_the_page_shows_uncertainty_samples_and_evidence(written_page: str) -> None:
    assert re.search(r'title="n = \d+, ± 0\.\d+ s">\d+\.\d+ \(min', written_page)
    assert re.search(r">1303\.54</a><a class=\"ref\" href=\"#note-\d+\">", written_page)
    assert not missing_facts(written_page, "Recovered", "another number")
    assert "published: am62x-11.01.rst, line" in written_page
    assert not missing_facts(written_page, "tunnel", "not carry")
    assert not missing_facts(written_page, "boards", "not known")


def test_the_page_runs_its_own_script_and_no_other(written_page: str) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", written_page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in written_page


def test_the_page_has_its_figures(written_page: str) -> None:
    figures = re.findall(r"<figure>(.*?)</figure>", written_page, re.DOTALL)
    assert [re.findall(r"<figcaption>(\w+ \w+)", figure) for figure in figures] == [
        ["Median over"], ["Boot time"], ["Stages of"], ["Power of"]
    ]  # fmt: skip
    chapters, cycles, stages, rails = figures
    assert 'aria-label="Each chapter over the releases"' in chapters
    assert re.search(r'<g class="dot"><line .*?/><circle ', cycles)
    assert 'class="band"' in cycles
    assert 'class="bin"' in cycles
    assert '<th scope="row">Kernel load</th>' in stages
    assert re.search(r'title="\S+ \d+\.\d\d mW"', rails)


@pytest.fixture(scope="module")
def several_boards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """The page of a release that four boards of one type were measured with."""
    folder = tmp_path_factory.mktemp("boards")
    with open_store(str(folder / "results.db")) as opened:
        for number in range(4):
            recorded_run.record(opened, virtual=False, cycles=3, seed=number, board=f"SK-{number}")
        (path,) = writer.write(opened, "11.01", [], folder, ["html"])
        yield opened, path.read_text(encoding="utf-8")


def test_a_figure_over_releases_is_of_one_kernel(tmp_path: Path) -> None:
    rows = ("lat_pipe (us),20.00", "lat_sem (us),2.00", "lat_unix (us),30.00")
    text = mini(table("Benchmarks,a1-fs: perf", *rows, title="LMBench Benchmarks"))
    (tmp_path / "guide.rst").write_text(text)
    with open_store(str(tmp_path / "results.db")) as opened:
        for release in ("9.00", "9.01-rt", "10.00"):
            import_guide(opened, tmp_path / "guide.rst", release, None, NOW)
        (path,) = writer.write(opened, "10.00", [], tmp_path, ["html"])
    html = path.read_text(encoding="utf-8")
    figure = html[html.index("<svg") : html.index("</svg>")]
    assert ">9.00<" in figure
    assert "9.01" not in figure


def test_a_board_type_has_one_figure_with_its_boards_as_strips(several_boards: tuple[Store, str]) -> None:
    _, html = several_boards
    strips, stages = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)
    assert [name for name in ("SK-0", "SK-1", "SK-2", "SK-3", "emmc", "ospi", "sd") if f">{name}<" not in strips] == []
    texts = re.findall(r"<svg [^>]*><title>(.*?)</title>(.*?)</svg>", strips, re.DOTALL)
    assert len(texts) == 4 * 3
    for text, strip in texts:
        assert re.fullmatch(r"SK-\d, (sd|emmc|ospi): [\d.]+ ± [\d.]+ s, 3 samples", text)
        assert strip.count('class="was"') == 3
    assert 'class="stages' in stages
    assert not missing_facts(html, "Boot time", "4 boards", "am62xx_sk")
    assert "the middle one of 4 runs" in html


def test_contents_and_summary_come_first(written_page: str, several_boards: tuple[Store, str]) -> None:
    for html in (written_page, several_boards[1]):
        places = [html.index(text) for text in (">Contents<", 'id="summary"', "<figure>", "<caption>")]
        assert places == sorted(places)
    text = rst_writer.write(stored_release.collect(several_boards[0], "11.01", ()))
    assert text.index(".. contents:: Contents") < text.index("Evaluation Modules") < text.index("Linux boot time")
    release = stored_release.collect(several_boards[0], "11.01", ["SK-0"])
    (summary,) = summarise_boards(release)
    assert (summary.numbers, summary.measured) == (27, 27)
    row = ",".join(f'"{text}"' for text in ("SK-0", *dict(summary.boots).values(), 27, 27, 0, 0))
    assert f"    {row}\n" in rst_writer.write(release)


def test_a_number_leads_to_its_run_where_the_sites_address_is_known(several_boards: tuple[Store, str]) -> None:
    store, without = several_boards
    assert "/runs/" not in without
    release = stored_release.collect(store, "11.01", ["SK-0"])
    (run,) = {entry.evidence.run_id for entry in release.entries}
    linked = evolve(release, run_page="https://lab.example.org/runs/{run}")
    address = f"https://lab.example.org/runs/{run}"
    html = page.render(linked, {})
    below_tables = html.count(f'(run <a href="{address}">{run}</a>).</p>')
    assert below_tables == html.count('<p class="note">SK-0: ') > 0
    assert html.count(f'<td><a href="{address}">run {run}, SK-0, ') == 27
    text = rst_writer.write(linked)
    assert text.count(f"(run `{run} <{address}>`__)") == below_tables
    assert reread(linked).readings == reread(release).readings


def test_texts_of_a_guide_cannot_break_the_page() -> None:
    evil = Origin(("<script>",), "</style>", ("K",), "<img src=x>", '"M"')
    release = GuideRelease(
        "1.0", ("a<b",), (GuideEntry("a<b", "", {}, "<b>1</b>", None, EntryProvenance("</details>", 1), origin=evil),)
    )
    html = page.render(release, {})
    for text in ("<img src=x>", "<b>1</b>", "</details></td>"):
        assert text not in html
    assert [t.title for t in compose.compose_tables(release)] == ["</style>"]
