"""Boots of two flows are never compared, and each comparison of two says why not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import bare_logs
from support.facts import missing_facts
from test_judge_baseline import START

from lab import boards
from lab.cli import main
from lab.judge.baseline import JudgedRun, judge_run
from lab.judge.builds import USUAL, remarks
from lab.judge.compare import Verdict
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.snapshot import watch
from lab.run.check.bare_log import read
from lab.run.check.findings import examine

FLOWS = ("normal", "quiet", "falcon", "falcon_quiet", "sbl", "efi")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def measure(store: Store, flow: str, folder: Path, medium: str = "sd") -> int:
    """A run with a boot of this flow, as a run of boots records it."""
    board, path = boards.load("am62xx_sk"), folder / "boot.log"
    path.write_bytes("\r\n".join(bare_logs.of_flow(flow)).encode("latin-1"))
    found = examine(read(path, board), board).result.samples
    assert found
    samples = tuple(SampleRecord(s.metric, {**s.params, "medium": medium}, s.value, s.uncertainty) for s in found)
    run = store.begin_run("boot", board.name, "b1", flow, plan={}, provenance={}).id
    record = AttemptRecord(1, 1, {"medium": medium}, "ok", None, None, "", START, 1.0, samples, details={"flow": flow})
    store.record_attempt(run, record)
    store.finish_run(run, "completed")
    return run


def judged(store: Store, run: int, against: str | None = None) -> tuple[JudgedRun, list[str]]:
    with watch(store.url).snapshot() as snapshot:
        return judge_run(snapshot, run, against), remarks(snapshot, run)


@pytest.mark.parametrize(("before", "now"), list(itertools.permutations(FLOWS, 2)))
def test_two_flows_are_not_compared_and_it_is_said_why(store: Store, tmp_path: Path, before: str, now: str) -> None:
    first = measure(store, before, tmp_path)
    run, notes = judged(store, measure(store, now, tmp_path), before)
    why = f"not compared: flow {now} now, {before} before"
    assert {(each.judgement.verdict, each.judgement.reason) for each in run.numbers} == {(Verdict.NOT_COMPARABLE, why)}
    assert run.missing == ()
    (note,) = notes
    assert not missing_facts(note, why, f"run {first}")


@pytest.mark.parametrize("flow", ["normal", "quiet"])
def test_one_flow_is_compared(store: Store, tmp_path: Path, flow: str) -> None:
    measure(store, flow, tmp_path)
    run, notes = judged(store, measure(store, flow, tmp_path))
    assert {each.judgement.verdict for each in run.numbers} == {Verdict.NOISE}
    assert notes == []


def test_a_flow_that_was_measured_before_is_compared_with_that(store: Store, tmp_path: Path) -> None:
    measure(store, "quiet", tmp_path)
    measure(store, "normal", tmp_path)
    run, notes = judged(store, measure(store, "quiet", tmp_path))
    assert {each.judgement.verdict for each in run.numbers} == {Verdict.NOISE}
    assert notes == []


def test_another_medium_is_new_and_not_of_another_flow(store: Store, tmp_path: Path) -> None:
    measure(store, "normal", tmp_path)
    run, _ = judged(store, measure(store, "quiet", tmp_path, "emmc"))
    assert {each.judgement.verdict for each in run.numbers} == {Verdict.NO_HISTORY}


@pytest.mark.parametrize("command", ["run", "compare"])
def test_the_commands_say_it(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    measure(store, "normal", tmp_path)
    run = measure(store, "quiet", tmp_path)
    assert main(["judge", command, str(run), "--db", store.url]) == 4, "nothing is known of its number"
    assert not missing_facts(capsys.readouterr().out, "flow quiet now", "normal before")


def test_a_number_without_the_parameter_is_of_the_usual_flow() -> None:
    assert USUAL == boards.NORMAL
