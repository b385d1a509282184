"""The published guides, the exporter and the judge of runs: one answer to one question, on every number of every board."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.guide_family import import_guide
from support.scraped import Scrape, scrape

from exporters.measurements import FigureMaker
from exporters.results import ResultsReader
from exporters.server import ResultsSource
from exporters.verdicts import MetricChange
from lab.guide.compare.comparison import Change, Comparison
from lab.judge.baseline import judge_run
from lab.judge.compare import Verdict
from lab.judge.latest import Reference
from lab.metrics import by_name
from lab.results.snapshot import watch
from lab.results.store import Store, open_store

NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
BOARDS = ("am62xx_sk-fs", "am62xx_lp_sk-fs", "am62xxsip_sk-fs")
Key = tuple[str, str, tuple[tuple[str, str], ...]]


@pytest.fixture(scope="module")
def store(paths: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(str(tmp_path_factory.mktemp("judge") / "results.db")) as store:
        import_guide(store, paths["am62x-09.02.rst"], "09.02", None, NOW)
        import_guide(store, paths["am62x-11.01.rst"], "11.01", BOARDS[0], NOW)
        yield store


@pytest.fixture(scope="module")
def exported(store: Store) -> dict[Key, MetricChange]:
    changes = ResultsReader(watch(store.url)).read().changes
    assert {change.kind for change in changes} == {Reference.RELEASE}
    return {(change.key.board, change.metric, (*_medium(change), *change.labels)): change for change in changes}


def _medium(change: MetricChange) -> tuple[tuple[str, str], ...]:
    return (("medium", change.key.medium),) if change.key.medium else ()


def _key(change: Change) -> Key:
    metric = by_name(change.metric)
    params = {
        name: text for name, text in change.params.items() if name.islower()
    }  # others are headers, shown as printed
    medium = (("medium", params["medium"]),) if "medium" in params else ()
    return change.board or BOARDS[0], change.metric, (*medium, *FigureMaker().labels(metric, params))


@pytest.fixture(scope="module")
def compared(comparison: Comparison) -> dict[Key, Change]:
    """What `lab guide compare` says of each number that has a name and a board; the first of a number that stands twice."""
    found: dict[Key, Change] = {}
    known = [c for c in comparison.changes if _is_known(c)]
    for change in sorted(known, key=lambda c: c.lines):
        found.setdefault(_key(change), change)
    return found


def _is_known(change: Change) -> bool:
    return "short" not in change.reason and ": " not in change.metric


def test_the_guides_and_the_exporter_agree_on_every_number_of_every_board(
    exported: dict[Key, MetricChange], compared: dict[Key, Change]
) -> None:
    both = exported.keys() & compared.keys()
    assert [key for key in both if exported[key].verdict is not compared[key].verdict] == []
    for key in both:
        ratio = compared[key].ratio
        assert exported[key].ratio == (None if ratio is None else pytest.approx(ratio - 1))
    assert {key[0] for key in both} == set(BOARDS)
    assert len(both) > 700


def test_what_only_one_of_them_judges_is_no_number_for_the_other(
    exported: dict[Key, MetricChange], compared: dict[Key, Change]
) -> None:
    """Broken runs are not stored, so the exporter has nothing there; and it invents nothing."""
    assert exported.keys() - compared.keys() == set()
    assert {compared[key].verdict for key in compared.keys() - exported.keys()} == {Verdict.BROKEN_RUN}


def test_the_exporter_calls_a_regression_what_the_guides_do_and_nothing_else(
    exported: dict[Key, MetricChange], compared: dict[Key, Change]
) -> None:
    worse = {key for key, change in exported.items() if change.regression}
    assert worse == {key for key, change in compared.items() if change.verdict is Verdict.REGRESSION}
    assert Counter(key[0] for key in worse)[BOARDS[0]] == 13, (
        "where the rule of 2 % and one run said 103, and two are suspect"
    )


def test_what_is_scraped_is_what_was_judged(store: Store, exported: dict[Key, MetricChange]) -> None:
    found: Scrape = scrape(b"".join(ResultsSource(ResultsReader(watch(store.url))).read().pieces()).decode())
    lines = found.all("boardlab_release_regression", kind="published", release="11.01")
    assert len(lines) == len(exported)
    assert sum(lines.values()) == sum(change.regression for change in exported.values())
    ratios = found.all("boardlab_release_change_ratio", against="09.02")
    assert len(ratios) == sum(change.ratio is not None for change in exported.values())


def test_the_judge_of_runs_says_the_same(store: Store, exported: dict[Key, MetricChange]) -> None:
    run = next(r for r in store.runs() if (r.board, r.release) == (BOARDS[0], "11.01"))
    with watch(store.url).snapshot() as snapshot:
        judged = judge_run(snapshot, run.id, against="9.2")
    assert len(judged.of(Verdict.REGRESSION)) == 13
    found = Counter(number.judgement.verdict for number in judged.numbers if number.baseline is not None)
    assert found == Counter(change.verdict for key, change in exported.items() if key[0] == BOARDS[0])
