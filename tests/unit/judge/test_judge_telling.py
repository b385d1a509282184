"""What a person is told of numbers that moved: the phrases, and the text, HTML and Markdown made of them."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.told_verdicts import BEGAN, a_run, moved, still

from lab.errors import BoardlabError
from lab.judge.records import DRIFT, OutcomeName, StoredVerdict
from lab.judge.summary import Form, render, summary, write
from lab.judge.text import EvidenceLinks, VerdictChange, changes

NOWHERE = EvidenceLinks("")
LAB = EvidenceLinks("https://lab.example.org/runs/{run}.html")
FORMS: tuple[Form, ...] = ("txt", "html", "md")


def one(*verdicts: object) -> VerdictChange:
    (change,) = changes(verdicts, BEGAN)
    return change


def test_one_number_that_got_worse_is_told_in_one_line() -> None:
    assert not missing_facts(
        one(moved(effect=0.0304, about=0.0042)).title,
        "Regression",
        "am62x-1",
        "boot.time (sd)",
        "+3.04 % ± 0.42 %",
        "run 12",
    )


def stage(name: str, effect: float, outcome: OutcomeName, medium: str = "sd") -> StoredVerdict:
    return moved("boot.stage", {"medium": medium, "stage": name}, outcome, effect)


def test_time_that_moved_from_one_stage_to_another_is_one_change() -> None:
    slower, faster = stage("Kernel", 0.05, "regression"), stage("User space", -0.03, "improvement")
    change = one(slower, faster)
    assert not missing_facts(change.title, "moved between stages", "am62x-1", "medium=sd", "stage=Kernel", "+5.")
    kernel, user_space = change.lines
    assert not missing_facts(kernel, "boot.stage", "medium=sd", "stage=Kernel", "+5.00 % ± 0.40 %", "worse")
    assert not missing_facts(user_space, "boot.stage", "medium=sd", "stage=User space", "-3.00 % ± 0.40 %", "better")
    with_it = changes([slower, faster, moved(effect=0.02)], BEGAN)
    assert [each.shifted for each in with_it] == [False, False], "the boot got slower: that is no shift"
    elsewhere = changes([slower, stage("User space", -0.03, "improvement", "emmc")], BEGAN)
    assert [each.shifted for each in elsewhere] == [False, False]


def test_since_says_run_date_release_and_image_and_hashes_are_told_by_their_beginning() -> None:
    change = one(moved())
    assert not missing_facts(change.since, "run 12", "2026-12-01 02:00 UTC", "11.02", "image b1b2b3b4b5b6")
    assert not missing_facts(change.differing, "image", "aaaaaaaaaaaa", "b1b2b3b4b5b6")


def test_what_moved_with_the_same_run_for_the_same_cause_is_one_change() -> None:
    stages = [moved("boot.stage", {"medium": "sd", "stage": f"s{n}"}, effect=0.03 + n / 100) for n in range(5)]
    found = changes([*stages, moved(), moved("boot.time", {"medium": "emmc"}, effect=0.02)], BEGAN)
    (change,) = found
    assert not missing_facts(
        change.title, "Regression", "am62x-1", "boot.time (sd)", "+3.00 % ± 0.40 %", "6 more", "run 12"
    )
    assert change.lines == [
        "boot.time, 2 numbers: +2.0 % to +3.0 %, worse",
        "boot.stage, 5 numbers: +3.0 % to +7.0 %, worse",
    ]


def test_a_hundred_metrics_are_a_few_lines_and_a_count() -> None:
    lines = one(*(moved(f"m{n}.x", {}) for n in range(100))).lines
    assert len(lines) == 11
    assert not missing_facts(lines[-1], "90 numbers", "90 more metrics")


def test_another_cause_another_board_and_another_outcome_are_other_changes() -> None:
    found = changes(
        [
            moved(),
            moved(outcome="environment", differs={"board": ("1", "2")}),
            moved(board="am62x-2"),
            moved(since=11, differs={}),
        ],
        BEGAN,
    )
    assert [(change.outcome, change.board, change.began.run) for change in found] == [
        ("regression", "am62x-1", 11),
        ("regression", "am62x-1", 12),
        ("regression", "am62x-2", 12),
        ("environment", "am62x-1", 12),
    ]


def test_runs_of_one_night_with_one_new_image_are_one_change() -> None:
    assert one(moved(), moved("lmbench.bw_mem", {"size": "8m"}, run=13, since=13)).began.run == 12


def test_a_board_that_was_swapped_is_environment_and_says_so() -> None:
    change = one(moved(outcome="environment", differs={"board": ("A1", "B2")}))
    assert not missing_facts(
        change.title, "Environment", "am62x-1", "board changed", "boot.time (sd)", "+3.00 % ± 0.40 %", "run 12"
    )
    assert change.differing == "board A1 -> B2"


@pytest.mark.parametrize("outcome", ["regression", "environment"])
def test_a_drift_says_small_steps(outcome: OutcomeName) -> None:
    change = one(moved(outcome=outcome, effect=0.08, since=3, differs={DRIFT: ("run 3", "run 12")}))
    name = outcome.capitalize()
    assert not missing_facts(
        change.title, f"{name}", "am62x-1", "boot.time (sd)", "+8.00 % ± 0.40 %", "small steps", "run 3"
    )
    assert not missing_facts(change.differing, "no single cause", "steps")


def test_the_other_boards_with_the_same_cause_are_named() -> None:
    first, second = changes([moved(), moved(board="am62x-2")], BEGAN)
    assert (first.boards, second.boards) == ("am62x-1, likewise am62x-2", "am62x-2, likewise am62x-1")
    assert [change.boards for change in changes([moved(differs={}), moved(board="am62x-2", differs={})], BEGAN)] == [
        "am62x-1",
        "am62x-2",
    ], "with no known cause nobody knows whether it is the same"


def test_a_new_mode_of_single_boots_has_no_interval() -> None:
    (line,) = one(moved(effect=0.12, about=None)).lines
    assert not missing_facts(line, "boot.time", "sd", "some boots", "+12.0 %", "worse")
    assert "±" not in line


def test_the_evidence_is_an_address_or_a_command() -> None:
    change = one(moved())
    assert LAB.report(change) == "https://lab.example.org/runs/12.html#boot.time"
    assert LAB.log(change) == "https://lab.example.org/runs/12.html#cycles-sd"
    assert NOWHERE.report(change) == "lab report 12"
    show, *words = NOWHERE.log(change).split(" --")
    assert (show, words) == ("lab results show 12", ["log", "metric boot.time", "medium sd"])


@pytest.mark.parametrize("address", ["https://lab.example.org/", "javascript:alert({run})", "/runs/{run}"])
def test_an_address_that_leads_to_no_run_is_refused(address: str) -> None:
    with pytest.raises(BoardlabError, match="expected http"):
        EvidenceLinks(address)


@pytest.mark.parametrize("form", FORMS)
def test_the_first_line_says_the_verdict_and_muted_ones_are_counted(form: Form) -> None:
    verdicts = [
        *(moved(), moved("quiet.metric", muted=True), still(), still(), still("unsure: rerun asked")),
        *(still("no history"), moved("better.metric", outcome="improvement", effect=-0.05)),
    ]
    text = render(summary(a_run(), verdicts, BEGAN), form, NOWHERE)
    shown = re.sub(r"<head>.*</head>|<[^>]*>", "", text, flags=re.DOTALL).strip() if form == "html" else text
    assert not missing_facts(
        shown.splitlines()[0].strip("*"),
        "Regression: 1 number",
        "unsure",
        "1 number",
        "improvement: 1 number",
        "run 12",
        "am62x-1",
        "11.02",
    )
    assert "quiet.metric" not in text
    assert not missing_facts(text, "1 unsure", "1 no history", "2 unchanged", "1 moved and muted")


@pytest.mark.parametrize("seed", range(8))
def test_a_headline_begins_with_what_weighs_most(seed: int) -> None:
    parts = {
        "regression": moved("a.x"),
        "not measured, since no cycle gave a sample above 0": still("no samples"),
        "unsure: a rerun is asked for": still("unsure: rerun asked"),
        "environment": moved("b.x", outcome="environment"),
        "improvement": moved("c.x", outcome="improvement", effect=-0.05),
    }
    dice = random.Random(seed)
    names = dice.sample(list(parts), dice.randint(1, len(parts)))
    failed = dice.choice([0, 1, 7])
    headline = summary(a_run(), [parts[name] for name in names] + [still()], BEGAN, failed).verdict
    wanted = [f"{name}: 1 number" for name in parts if name in names and not (failed and name.startswith("not"))]
    begin = {0: [], 1: ["the only cycle that was tried failed"], 7: ["all 7 cycles that were tried failed"]}[failed]
    assert headline.partition(" (run")[0].lower() == ("; ".join([*begin, *wanted]) or "nothing moved")


@pytest.mark.parametrize("form", FORMS)
def test_where_nothing_moved_that_is_said(form: Form) -> None:
    assert not missing_facts(
        render(summary(a_run(), [still()], BEGAN), form, LAB), "Nothing moved", "run 12", "am62x-1", "11.02"
    )
    assert "Nothing was judged" in render(summary(a_run(), [], BEGAN), form, LAB)


class Page(HTMLParser):
    """Tags and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]


def test_html_is_escaped_links_to_the_evidence_and_fits_a_telephone() -> None:
    board = "<script>alert(1)</script>&\u202e"
    text = render(summary(a_run(board=board), [moved(board=board)], BEGAN), "html", LAB)
    page = Page(text)
    assert "script" not in page.tags
    assert "\u202e" not in text
    assert page.links == [
        "https://lab.example.org/runs/12.html#boot.time",
        "https://lab.example.org/runs/12.html#cycles-sd",
    ]
    assert not page.tags & {"table", "pre", "img"}, "these can be wider than 400 px"
    assert "overflow-wrap: anywhere" in text
    assert 'content="width=device-width' in text
    assert not re.search(r"(?<!max-)width: *[0-9.]+(px|em|cm)", text)


def test_markdown_is_escaped() -> None:
    board = "a|b*c_d<e>[f](g)`h`"
    text = render(summary(a_run(board=board), [moved(board=board)], BEGAN), "md", LAB)
    assert r"a\|b\*c\_d\<e\>\[f\](g)\`h\`" in text
    assert "[report](<https://lab.example.org/runs/12.html#boot.time>)" in text
    forge = render(summary(a_run(board="$x$@team!7"), [moved()], BEGAN), "md", LAB)
    assert r"\$x\$@<!-- -->team\!7" in forge, "as in a comment on guides: nobody is called, nothing is a formula"
    assert "`lab report 12`" in render(summary(a_run(), [moved()], BEGAN), "md", NOWHERE)


def test_a_file_is_written_as_its_name_says(tmp_path: Path) -> None:
    said = summary(a_run(), [moved()], BEGAN)
    for name, begins in (("s.md", "**Reg"), ("s.HTML", "<!doctype"), ("s.txt", "Reg")):
        write(said, tmp_path / name, LAB)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    with pytest.raises(BoardlabError, match=r"\.md, \.html or \.txt"):
        write(said, tmp_path / "s.pdf", LAB)
    with pytest.raises(BoardlabError, match="choose another file"):
        write(said, tmp_path / "no" / "s.md", LAB)
