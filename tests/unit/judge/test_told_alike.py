"""Mail, exit code, pages, lists, exporter and dashboards say the same of a simulated board's nights, and the right thing."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from attrs import frozen
from support.simnights import BOARD
from support.toldstories import LONG, STORIES, Story, history, played
from support.web_serving import serving

from exporters.metrics import StandingMetrics
from lab.cli import main
from lab.cli.exporter import export_boards
from lab.farm.rerun import report
from lab.farm.status import look
from lab.judge.store import read_verdicts
from lab.judge.text import EvidenceLinks
from lab.results import open_store
from lab.results.snapshot import watch
from lab.web.site import Site

WITHOUT_MARKUP = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]*>", re.DOTALL)


@frozen
class Lab:
    """A lab's folder after a story."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def db(self) -> str:
        return str(self.folder / "results.db")

    def __call__(self, *words: str) -> tuple[int, str]:
        code = main([*words, "--db", self.db])
        return code, self.capsys.readouterr().out

    def headline(self) -> str:
        """First line of the mail of `lab judge run latest`."""
        file = self.folder / "verdict.txt"
        self("judge", "run", "latest", "--summary", str(file))
        return file.read_text().splitlines()[0]

    def titles(self) -> list[str]:
        """Series of Prometheus behind the mails and the dashboards' tables."""
        words, watcher = EvidenceLinks(""), watch(self.db)
        standing = StandingMetrics(watcher, words)
        found = [*standing.verdicts(), *standing.failures()]
        return [each.labels["title"] for family in found for each in family.samples if "title" in each.labels]

    def pages(self, *paths: str) -> Iterator[str]:
        with serving(Site(self.db, runtime=self.folder / "runtime", folder=self.folder)) as url:
            for path in paths:
                page = requests.get(f"{url}{path}", timeout=60)
                assert page.ok
                yield " ".join(html.unescape(WITHOUT_MARKUP.sub(" ", page.text)).split())


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    history(folder)
    return folder


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in STORIES])
def story(request: pytest.FixtureRequest) -> Story:
    return STORIES[request.param]


@pytest.fixture
def lab(
    before: Path, story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lab:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = Path(shutil.copytree(before, tmp_path / "lab"))
    (folder / "runtime").mkdir(mode=0o700)
    played(folder, story)
    return Lab(folder, capsys)


def test_a_story_is_told_alike_everywhere(lab: Lab, story: Story) -> None:
    with open_store(lab.db) as store:
        judged = max(verdict.run.id for verdict in read_verdicts(store))
        assert report(store, judged, lambda _line: None) == (not story.worse or story.state[0] == "failed")
    assert lab("judge", "run", str(judged))[0] == int(story.worse)
    assert lab.headline().startswith(story.headline)

    titles = sorted(lab.titles(), key=lambda title: [int(run) for run in re.findall(r"since run (\d+)", title)])
    assert len(titles) == len(story.titles)
    assert all(re.match(wanted, title) for wanted, title in zip(story.titles, titles, strict=True)), titles

    listed = lab("judge", "list")[1]
    open_ones = lab("judge", "list", "--json")[1]
    if not story.titles:
        assert listed.startswith("no open verdicts")
    for title in titles:
        if size := re.search(r"\+\d\.\d+ % ± \d\.\d+ %, since|\+\d\.\d+ %", title):
            assert size[0].split(" %")[0] in listed
            assert f'"since_run": {title.rsplit(" ", 1)[1]}' in open_ones
        else:
            assert f"failing: {title}" in listed

    (board,) = look(lab.db, runtime=lab.folder / "runtime", folder=lab.folder).boards
    (shown,) = export_boards([board])
    assert (shown.state, shown.fault) == story.state
    assert bool(shown.worse) == (shown.state == "worse")
    its_page, wall = lab.pages(f"/boards/{BOARD}", "/")
    for page in (its_page, wall):
        assert re.search(rf"{BOARD} (?:\S+, \S+ )?{shown.state}\b", page), (
            "type and release stand beside a card's name"
        )
        assert " ".join(shown.cause.rstrip("…").split()) in page
