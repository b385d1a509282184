"""A comparison as a page and as a comment: well formed, whole, and safe whatever a guide is called."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from support.guide_family import GuideText, table, write_rst

from lab.guide import measurements
from lab.guide.compare import causes as guide_causes
from lab.guide.compare import comparison as compare
from lab.guide.compare.causes import Cause, Kind
from lab.guide.compare.comparison import Comparison
from lab.guide.read import reader
from lab.guide.write import comparison_page

VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "<script>alert(1)</script>|a*b_c`d`[e](http://example.org)&amp;@team$x$\u202egnp#1"
COLUMNS = 7


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.mistakes: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.mistakes += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self._open or self._open.pop() != tag):
            self.mistakes.append(f"</{tag}> closes nothing, line {self.getpos()[0]}")


def rendered(text: str) -> Page:
    """As a forge shows it: CommonMark, with tables."""
    return Page(MarkdownIt("commonmark").enable("table").render(text))


@pytest.fixture(scope="module")
def hostile() -> Comparison:
    """Two guides whose titles, rows and files are called what nobody should call them."""
    name = HOSTILE
    found = []
    for release, value in (("10.00", "20.00"), ("11.00", "30.00")):
        tables = [
            table(
                "Algorithm,Buffer Size (in bytes),a1-fs: throughput (KBytes/Sec)",
                f"{name},1024,{value}",
                title="OpenSSL Performance",
            ),
            table(f"Test,{name}: Wobble (turns/s)", f"{name},{value}", title=name),
        ]
        text = write_rst(GuideText(f"Linux {release} Performance Guide", tables=tables))
        found.append(measurements.of_guide(reader.parse(f"{name}-{release}.rst", text)))
    return compare.compare(*found)


def test_the_page_is_well_formed_whole_and_needs_no_network(comparison: Comparison) -> None:
    text = comparison_page.html(comparison)
    page = Page(text)
    assert page.mistakes == []
    assert page.tags[0] == "html"
    links = [value for name, value in page.attributes if name in {"href", "src"}]
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {link for link in links if link.removeprefix("#") not in ids} == set()
    assert "default-src 'none'" in text
    assert "light-dark(" in text
    assert "max-width: 40rem" in text
    assert guide_causes.verdict_line(comparison) in text
    for change in comparison.changes:
        assert any(
            change.board in (None, *row) and f"lines {change.lines[0]}, {change.lines[1]}" in row for row in page.rows
        )
    for cause in guide_causes.find_causes(comparison):
        assert any(cause.what in row and cause.why in row for row in page.rows)


def test_the_comment_is_markdown_whose_table_has_all_its_columns(comparison: Comparison) -> None:
    text = comparison_page.markdown(comparison)
    assert text.startswith(f"**{guide_causes.verdict_line(comparison)}**\n")
    assert len(text) < 65536, "what GitHub takes"
    page = rendered(text)
    assert page.mistakes == []
    assert page.tags.count("table") == 1
    assert {len(row) for row in page.rows} == {COLUMNS}
    assert page.rows[0] == ["Number", "Board", "09.02.00", "11.01", "Change, 95 %", "Verdict", "Evidence"]
    boot = next(row for row in page.rows if row[0].startswith("boot.time"))
    assert boot[2:4] == ["18.06 ± 0.12 s", "16.24 ± 0.23 s"]
    assert re.fullmatch(r"lines \d+, \d+", boot[6])
    told = [cause for cause in guide_causes.find_causes(comparison) if cause.kind is Kind.WRONG]
    assert all(cause.what in text for cause in told)


@pytest.mark.parametrize(
    "name",
    [
        "ordinary",
        "|*_<>" * 400,
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("\U0001f422" * 700, "@a" * 900)),
    ],
)
def test_a_comment_is_as_long_as_a_forge_takes_whatever_the_guides_hold(name: str) -> None:
    """Two hundred rows that nobody knows, each for a reason of its own, in guides of long names."""
    rows = [f"row {number}" for number in range(200)]
    sheets = []
    for release, factor in (("10.00", 1.0), ("11.00", 2.0)):
        tables = [
            table(
                "Benchmarks,a1-fs: perf",
                f"core{name}{row} (workloads/),{(10 + n) * factor ** (n % 7):.2f}",
                title="CoreMarkPro",
            )
            for n, row in enumerate(rows)
        ]
        text = write_rst(GuideText(f"Linux {release} Performance Guide", tables=tables))
        sheets.append(measurements.of_guide(reader.parse(f"{name}-{release}.rst", text)))
    found = compare.compare(*sheets)
    causes = [_cause(found, Kind.WORSE, f"{name} {n}") for n in range(150)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison_page, "find_causes", lambda _found: causes)
        text = comparison_page.markdown(found)
    assert len(text.encode()) < 65536, "what GitHub takes"
    page = rendered(text)
    assert page.mistakes == []
    shown = page.tags.count("li")
    assert 1 <= shown <= 40
    assert f"And {150 - shown} more causes" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("- ")) < 5000


def _cause(found: Comparison, kind: Kind, why: str) -> Cause:
    return Cause(kind, why, why * 20, (), len(found.changes), changes=found.changes)


def test_a_page_of_two_guides_that_did_not_move_says_so(hostile: Comparison) -> None:
    same = measurements.of_guide(
        reader.parse(
            "g.rst",
            'T\n====\n\n.. csv-table:: L\n    :header: "Benchmarks","a1: perf"\n\n    "lat_pipe (us)","2.00"\n',
        )
    )
    found = compare.compare(same, same)
    assert "did not move" in comparison_page.html(found)
    assert "| Number |" not in comparison_page.markdown(found)
    assert Page(comparison_page.html(found)).mistakes == []


def test_a_page_of_two_guides_with_nothing_in_common_is_not_green() -> None:
    text = 'T\n====\n\n.. csv-table:: L\n    :header: "Benchmarks","a1: perf"\n\n    "{row}","2.00"\n'
    pipe, null = (
        measurements.of_guide(reader.parse("g.rst", text.format(row=row)))
        for row in ("lat_pipe (us)", "lat_null (us)")
    )
    marks = [
        re.findall(r'class="mark (\w*)"><strong>([^<]*)', comparison_page.html(compare.compare(*sheets)))[0]
        for sheets in ((pipe, pipe), (pipe, null))
    ]
    assert marks[0][0] == "good"
    assert (marks[1][0], "nothing in common" in marks[1][1]) == ("plain", True)


def test_hostile_names_are_only_text_on_the_page(hostile: Comparison) -> None:
    text = comparison_page.html(hostile)
    page = Page(text)
    assert page.mistakes == []
    assert "script" not in page.tags
    assert "\u202e" not in text
    assert any("<script>alert(1)</script>|a*b_c`d`" in cell for row in page.rows for cell in row)


def test_hostile_names_are_only_text_in_the_comment(hostile: Comparison) -> None:
    text = comparison_page.markdown(hostile)
    page = rendered(text)
    assert page.mistakes == []
    assert not {"script", "a", "em", "code", "img"} & set(page.tags)
    assert {len(row) for row in page.rows} == {COLUMNS}
    assert "\u202e" not in text
    assert "@team" not in text, "nobody is called"
    assert any(
        "<script>alert(1)</script>|a*b_c`d`[e](http://example.org)&" in cell for row in page.rows for cell in row
    )
