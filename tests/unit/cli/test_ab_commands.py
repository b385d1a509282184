"""`lab ab` and `lab bisect`: what they refuse, which builds they search, and how a search goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.cli.ab import MediaSwitch, _require_two
from lab.cli.bisect import BuildBoots, releases_between
from lab.errors import BoardTransientError, ConfigurationError
from lab.provision.releasefile import load
from lab.results import Run, Store, open_store
from lab.results.records import BISECT

DIGEST = "ab" * 32
RELEASE = f"boards: [{{board}}]\nmedia:\n  sd:\n    image: {{{{source: all.wic, sha256: {DIGEST}}}}}\nidentity:\n  kernel: Linux\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


def written(folder: Path, name: str, at: int, board: str = "am62xx_sk") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(RELEASE.format(board=board), encoding="utf-8")
    os.utime(path, (at, at))
    return path


def test_builds_are_those_of_the_board_type_between_good_and_bad_in_the_order_of_their_writing(tmp_path: Path) -> None:
    paths = {name: written(tmp_path, name, at) for at, name in enumerate(("old", "z-good", "m", "a-bad", "new"), 1)}
    written(tmp_path, "other", 3, "am64xx_sk")
    found = releases_between(paths["z-good"], paths["a-bad"], "am62xx_sk")
    assert [each.name for each in found] == ["z-good", "m", "a-bad"]
    with pytest.raises(ConfigurationError, match="was not written after"):
        releases_between(paths["a-bad"], paths["z-good"], "am62xx_sk")
    with pytest.raises(ConfigurationError, match="one folder"):
        releases_between(tmp_path / "elsewhere.yaml", paths["a-bad"], "am62xx_sk")


def test_a_search_finds_the_runs_of_its_builds_again(store: Store, tmp_path: Path) -> None:
    def begin(build: str, **plan: Any) -> Run:
        return store.begin_run(
            BISECT, "am62xx_sk", "sk-1", build, plan={"cycles": 9, "media": ["sd"], **plan}, provenance={}
        )

    first = begin("one", seed=1)
    second, _another = begin("two", of=first.id), begin("two", of=first.id + 50)
    strategy = SimpleNamespace(type=None, board="sk-1", console=None)
    boots = BuildBoots(store, strategy, tmp_path, first)
    assert [boots[name].run.id for name in ("one", "two")] == [first.id, second.id]
    boots.finish("interrupted")
    assert [store.run(run.id).status for run in (first, second)] == ["interrupted"] * 2


def test_a_build_that_is_on_the_medium_is_not_written_again() -> None:
    releases: dict[str, Any] = {"a": SimpleNamespace(name="11.01"), "b": SimpleNamespace(name="11.02")}
    there = SimpleNamespace(is_on_it=True, release="11.01")
    book: Any = SimpleNamespace(current=lambda _board: {"sd": there})
    states: list[str] = []
    strategy = SimpleNamespace(
        board="sk-1", medium="sd", putting=None, off=lambda: states.append("off"), transition=states.append
    )
    switch = MediaSwitch(strategy, releases, book, 1)
    switch.switch("a")
    assert states == []
    switch.switch("b")
    assert states == ["off", "provisioned"]
    assert strategy.putting.release.name == "11.02"


def test_a_write_that_failed_at_the_medium_it_boots_from_leaves_the_medium_of_the_pairs() -> None:
    releases: dict[str, Any] = {name: SimpleNamespace(name=name) for name in ("a", "b")}
    book: Any = SimpleNamespace(current=lambda _board: {})
    strategy = SimpleNamespace(board="sk-1", medium="sd", putting=None, off=lambda: None)

    def fail(_state: str) -> None:
        strategy.medium = "ospi"  # whose U-Boot was to write
        raise BoardTransientError("no prompt of U-Boot", failure="silent")

    strategy.transition = fail
    switch = MediaSwitch(strategy, releases, book, 1)
    for side in releases:
        with pytest.raises(BoardTransientError):
            switch.switch(side)
        assert strategy.putting.media == ["sd"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["a.yaml"], "two release files"),
        (["a.yaml", "b.yaml", "--same"], "leave the releases and the other one out"),
        (["--same", "--slots", "x", "y"], "leave the releases and the other one out"),
    ],
)
def test_ab_wants_two_releases_or_none(words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ab", *words, "--env", "none.yaml"]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())


def test_ab_refuses_two_names_of_one_release(tmp_path: Path) -> None:
    one, copy = (load(written(tmp_path, name, 1)) for name in ("one", "copy"))
    with pytest.raises(ConfigurationError, match=r"\bone\b.*\bcopy\b.*\bsd\b"):
        _require_two([one, copy], "sd")
    (tmp_path / "other").mkdir()
    with pytest.raises(ConfigurationError, match=r"A and B\b.*\bone\b"):
        _require_two([one, load(written(tmp_path / "other", "one", 1))], "sd")


@pytest.mark.parametrize("metric", ["boot.tim", "boot.stage", "boot.time:Kernel"])
def test_bisect_names_the_numbers_that_it_can_search_by(metric: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--good", "a.yaml", "--bad", "b.yaml", "--env", "none.yaml", "--metric", metric]
    assert main(["bisect", *words]) == 2
    assert not missing_facts(" ".join(capsys.readouterr().err.split()), "boot.stage", "STAGE")
