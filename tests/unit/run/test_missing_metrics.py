"""What a run of cycles says is missing in its store: the metrics of every good cycle, as the plan asks for them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import simruns
from support.facts import missing_facts

from lab import boards
from lab.host.clock import MonotonicRaw
from lab.metrics.catalogue import RESUMES
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress


def test_a_boot_has_its_time_the_time_from_power_on_and_its_stages(tmp_path: Path) -> None:
    with simruns.bench(tmp_path) as bench:
        assert bench.run.missing("sd") == [
            "boot.efi_to_prompt or boot.spl_to_prompt or boot.time",
            "boot.power_on_to_prompt",
            "boot.stage",
        ]
        assert [attempt.ok for attempt in bench.measure("sd")] == [True]
        assert bench.run.missing("sd") == []
        assert "boot.stage" in bench.run.missing("emmc"), "the samples of another medium do not count"


RAILS = SimpleNamespace(
    config=SimpleNamespace(measured=[SimpleNamespace(name="vdd_core"), SimpleNamespace(name="vdda")])
)


def low_power_run(store: Store, *, has_rails: bool, **plan: Any) -> LowPowerRun:
    planned = {"cycles": 1, "modes": ["deep_sleep"], "wake": "uart", "sleep_s": 15, "medium": "sd", **plan}
    run = store.begin_run(KIND, "am62xx_sk", "sk-1", "11.01", plan=planned, provenance={})
    board: Any = SimpleNamespace(
        rails=RAILS if has_rails else None, type=boards.load("am62xx_lp_sk"), wired=["can"], console=None
    )
    clock = MonotonicRaw()
    return LowPowerRun(store, run, board, Progress(lambda _line: None, clock, 1), clock, lambda _s: None, 0)


def kept(run: LowPowerRun, mode: str, *names: str, no_power: str = "") -> LowPowerRun:
    """The run, with one good attempt of these metrics of all rails, or `power_rail vdda` of one, and why it has no power."""
    rails = [rail.name for rail in RAILS.config.measured]
    samples = tuple(
        SampleRecord(f"lpm.{mode}.{name}", {"mode": mode, "rail": rail}, 1.0, 0.1, frozenset(), 0, 1)
        for name, *only in map(str.split, names)
        for rail in (only or rails)
    )
    run.store.record_attempt(
        run.run.id,
        AttemptRecord(
            cycle=1,
            number=1,
            params={"mode": mode, "wake": "uart"},
            outcome="ok",
            fault=None,
            transient=None,
            message="",
            started_at=dt.datetime.now(dt.UTC),
            duration_s=1.0,
            samples=samples,
            details={"suspend": {"no_power": no_power}},
        ),
    )
    return run


HOST = ("resume_wake_to_first_byte", "resume_wake_to_prompt")


@pytest.mark.parametrize(
    ("has_rails", "plan", "mode", "wanted"),
    [
        (False, {}, "deep_sleep", {"resume_kernel", *HOST}),
        (False, {"wake": "rtc"}, "deep_sleep", {"resume_kernel"}),
        (True, {}, "deep_sleep", {"resume_kernel", *HOST, "power_rail"}),
        (True, {"sleep_s": 3}, "deep_sleep", {"resume_kernel", *HOST}),
        (True, {"energy": True}, "deep_sleep", {"resume_kernel", *HOST, "power_rail", "energy"}),
        (True, {}, "partial_io", {"resume_wake_to_prompt"}),
    ],
)
def test_a_suspend_has_what_its_plan_asks_for(
    tmp_path: Path, has_rails: bool, plan: dict[str, Any], mode: str, wanted: set[str]
) -> None:
    names = {f"lpm.{mode}.{name}" for name in wanted}
    assert names <= {metric.name for metric in RESUMES[mode].metrics}
    with open_store(str(tmp_path / "results.db")) as store:
        assert set(low_power_run(store, has_rails=has_rails, **plan).missing(mode)) == names
        assert kept(low_power_run(store, has_rails=has_rails, **plan), mode, *wanted).missing(mode) == []
        for name in wanted:
            run = kept(low_power_run(store, has_rails=has_rails, **plan), mode, *(wanted - {name}))
            assert run.missing(mode) == [f"lpm.{mode}.{name}"]


def test_power_that_is_missing_is_named_with_its_reason(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = kept(
            low_power_run(store, has_rails=True), "deep_sleep", "resume_kernel", *HOST, no_power="it was never silent"
        )
        kept(run, "mcu_only", no_power="another mode's")
        (missing,) = run.missing("deep_sleep")
        assert missing.split(": ") == ["lpm.deep_sleep.power_rail", "it was never silent"]


def test_a_rail_whose_sensor_is_silent_is_missing_beside_the_others(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = kept(low_power_run(store, has_rails=True), "deep_sleep", "resume_kernel", *HOST, "power_rail vdda")
        (missing,) = run.missing("deep_sleep")
        short = kept(
            low_power_run(store, has_rails=True, sleep_s=3), "deep_sleep", "resume_kernel", *HOST, "power_rail vdda"
        )
        assert short.missing("deep_sleep") == [], "a short sleep has samples of some rails only"
    assert not missing_facts(missing, "lpm.deep_sleep.power_rail of vdd_core", "no sample")
