"""The pictures of the documents stay true: each is made by a program, as are the numbers that the README shows."""

from __future__ import annotations

import re
from pathlib import Path

import page_looks
import pictures
import pytest
import readme_demo
from support import recorded_run

from lab.results.store import open_store

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SHOWN = re.compile(r"!\[[^\]]*\]\(([^)\s]+)|<img[^>]*src=[\"']([^\"']+)")
ROW = re.compile(r"^  (\w+) +(\S+) \(min (\S+), max (\S+)\)  (\d+/\d+) ", re.MULTILINE)


def test_every_picture_that_a_document_shows_has_a_maker() -> None:
    shown = {
        (page.parent / (markdown or html)).resolve()
        for page in PAGES
        for markdown, html in SHOWN.findall(page.read_text(encoding="utf-8"))
    }
    assert shown == {pictures.IMAGES / name for name in pictures.MAKERS}
    assert {path for path in (REPOSITORY / "docs").rglob("*") if path.suffix in {".png", ".svg", ".jpg"}} == shown


def block() -> str:
    """What stands between the marks in the README."""
    rest = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition(readme_demo.BEGIN)[2]
    return rest.partition(readme_demo.END)[0]


def test_the_readme_shows_the_whole_demo() -> None:
    text = block()
    assert re.match(
        r"```\n\$ lab results show (\d+)\nrun \1: boot, qemu-virt 'qemu-1', release \S+, completed\n", text
    )
    rows = ROW.findall(text.partition("boot.time\n")[2].partition("boot.power_on_to_prompt\n")[0])
    assert [(medium, n) for medium, *_, n in rows] == [("sd", "20/20"), ("emmc", "20/20"), ("ospi", "20/20")]
    for _medium, mean, least, most, _n in rows:
        assert len({len(value.partition(".")[2]) for value in (mean, least, most)}) == 1, "digits follow the ±"
    assert max(map(len, text.split("```")[1].splitlines())) <= readme_demo.COLUMNS
    assert re.search(r"^Measured on \d+ \w+ 20\d\d, on a host with \d+ processors", text, re.MULTILINE)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store, and a README and no Chromium."""
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{readme_demo.BEGIN}old\n{readme_demo.END}after\n", encoding="utf-8")
    monkeypatch.setattr(readme_demo, "README", readme)
    monkeypatch.setattr(page_looks, "look", lambda looks: [Path(one.picture).touch() for one in looks])
    url = f"sqlite:///{tmp_path / 'results.db'}"
    monkeypatch.setenv("LAB_DB", url)
    return url


def test_the_readme_is_renewed_from_the_demos_run(store: str, tmp_path: Path) -> None:
    with open_store(store) as opened:
        recorded_run.record(opened)
        recorded_run.record(opened, cycles=1)
    readme_demo.renew(tmp_path / "report.png")
    text = readme_demo.README.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{readme_demo.BEGIN}```\n$ lab results show 1\nrun 1: boot, qemu-virt 'qemu-1'")
    assert text.endswith(f"on a host with 2 processors, by boardlab 0.1.\n{readme_demo.END}after\n")
    assert "old" not in text
    assert (tmp_path / "report.png").exists()


def test_a_short_demo_is_not_taken(store: str, tmp_path: Path) -> None:
    with open_store(store) as opened:
        recorded_run.record(opened, cycles=3)
    before = readme_demo.README.read_bytes()
    with pytest.raises(SystemExit, match=r"\./run demo"):
        readme_demo.renew(tmp_path / "report.png")
    assert readme_demo.README.read_bytes() == before
