"""How often a board fails, and how sure a rise is."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy import stats
from support import recorded_run
from support.facts import missing_facts

from lab.cli import main
from lab.judge.baseline import judge_run
from lab.metrics.rates import FailureRate, RateChange
from lab.metrics.uncertainty import wilson
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.formatting import summary_lines
from lab.results.listing import overview
from lab.results.snapshot import watch


@pytest.mark.parametrize("seed", range(30))
def test_the_interval_is_wilsons_and_the_chance_is_fishers(seed: int) -> None:
    dice = random.Random(seed)
    tried, before = dice.randint(1, 300), dice.randint(1, 300)
    failed = dice.choice([0, tried, dice.randint(0, tried)])
    was = dice.choice([0, before, dice.randint(0, before)])
    expected = stats.binomtest(failed, tried).proportion_ci(method="wilson")
    assert wilson(failed, tried) == pytest.approx((expected.low, expected.high), abs=1e-9)
    change = RateChange(FailureRate(failed, tried), FailureRate(was, before))
    side = "greater" if failed * before >= was * tried else "less"
    table = [[failed, tried - failed], [was, before - was]]
    assert change.chance == pytest.approx(stats.fisher_exact(table, alternative=side).pvalue, rel=1e-6)


@pytest.mark.parametrize(
    ("now", "before", "outcome"),
    [
        ((0, 60), None, "no history"),
        ((0, 60), (0, 60), "none"),
        ((1, 60), (0, 60), "none"),
        ((3, 60), (0, 60), "unsure"),
        ((3, 60), (0, 600), "regression"),
        ((4, 60), (1, 200), "unsure"),  # chance .0108: beyond SURE by little
        ((1, 60), (4, 60), "unsure"),  # .182
        ((2, 60), (3, 300), "unsure"),  # .195
        ((3, 60), (4, 200), "none"),  # .202
        ((8, 60), (0, 60), "regression"),
        ((0, 60), (12, 60), "improvement"),
        ((60, 60), (0, 1), "unsure"),
    ],
)
def test_a_rise_is_called_as_surely_as_it_is_one(
    now: tuple[int, int], before: tuple[int, int] | None, outcome: str
) -> None:
    change = RateChange(FailureRate(*now), FailureRate(*before) if before else None)
    assert change.outcome == outcome
    assert f"{now[0]} of {now[1]}" in change.text()


def test_a_board_that_did_not_change_is_called_in_less_than_one_run_of_a_hundred() -> None:
    dice = random.Random(38)
    called = 0
    for _ in range(2000):
        share = dice.uniform(0, 0.2)
        now, before = (sum(dice.random() < share for _ in range(60)) for _ in range(2))
        called += RateChange(FailureRate(now, 60), FailureRate(before, 60)).outcome == "regression"
    assert called < 20


OUTCOMES = {"ok": None, "kernel_panic": "board", "pdu_timeout": "lab"}


def record(store: Store, attempts: Sequence[tuple[int, str]], medium: str = "sd", *, virtual: bool = False) -> int:
    """A run with these attempts: cycle and outcome."""
    plan = {"cycles": 1, "media": ["sd"]}
    run = store.begin_run("boot", "am62xx_sk", "b1", "1", plan=plan, provenance={"virtual": virtual}).id
    for number, (cycle, outcome) in enumerate(attempts):
        ok = outcome == "ok"
        attempt = AttemptRecord(
            cycle=cycle,
            number=1,
            params={"medium": medium},
            outcome=outcome,
            fault=OUTCOMES[outcome],
            transient=None if ok else True,
            message="",
            started_at=recorded_run.START.replace(microsecond=number),
            duration_s=1.0,
            samples=(SampleRecord("boot.time", {"medium": medium}, 5.0, 0.001),) if ok else (),
        )
        store.record_attempt(run, attempt)
    store.finish_run(run, "completed")
    return run


def test_a_retried_success_counts_with_its_failure_and_the_labs_failures_do_not(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = record(store, [(1, "kernel_panic"), (1, "ok"), (2, "pdu_timeout"), (2, "ok"), (3, "ok")])
        assert list(overview(store, run).failure_rates.values()) == [FailureRate(1, 4)]
        text = "\n".join(summary_lines(store, run))
        assert not missing_facts(text, "boot.failure_rate\n", "sd 1 of 4: 25.0 %", "95 %: 4.6 to 69.9 %")
        only_the_lab = record(store, [(1, "pdu_timeout")])
        assert overview(store, only_the_lab).failure_rates == {}


def test_the_judge_compares_the_rate_with_all_runs_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "results.db")
    good = [(cycle, "ok") for cycle in range(1, 21)]
    with open_store(url) as store:
        for _ in range(3):
            record(store, good)
        record(store, good, virtual=True)
        record(store, good, medium="emmc")
        run = record(store, [*((cycle, "kernel_panic") for cycle in range(1, 9)), *good])
        with watch(url).snapshot() as snapshot:
            ((params, change),) = judge_run(snapshot, run).rates
        assert (params, change.now, change.before) == ({"medium": "sd"}, FailureRate(8, 28), FailureRate(0, 60))
    assert main(["judge", "compare", str(run), "--db", url]) == 1
    said = capsys.readouterr().out
    assert not missing_facts(said, "boot.failure_rate\n", "sd 8 of 28: 28.6 %", "before 0 of 60")
    assert main(["judge", "compare", str(run - 3), "--db", url]) == 0
    assert "failure_rate" not in capsys.readouterr().out, "nothing failed, and nothing changed"
    assert main(["judge", "compare", str(run), "--db", url, "--json"]) == 1
    (rate,) = json.loads(capsys.readouterr().out)["failure_rates"]
    assert (rate["metric"], rate["failed"], rate["outcome"]) == ("boot.failure_rate", 8, "regression")
