"""Rails in a browser: what a sampler writes is what viewers get, while it grows and from one sampler to the next."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import evolve
from support.railbench import BenchClock, RailBench, RailBus
from support.simruns import planned

from lab.host import process, status_files
from lab.host.status_files import SamplerStatus
from lab.rails import AdcRange
from lab.rails.ina import InaSensor
from lab.rails.ina_chips import CHIPS
from lab.rails.live import STEP_NS
from lab.rails.sampler import SensorRecorder
from lab.web import rails as live
from lab.web.rails import LiveRails, document


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def every_look_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_S", 0.0)


def sampling(bench: RailBench, runtime: Path, trace: Path, wanted: AdcRange = AdcRange.ACTIVE) -> SensorRecorder:
    sensor = InaSensor(bench.config, CHIPS["ina231"], RailBus(bench))
    bench._due_ns = bench.now_ns
    return SensorRecorder(bench.config, sensor, wanted, trace, BenchClock(bench), "virtual time", runtime)


def test_a_viewer_gets_the_power_that_the_board_draws_as_it_is_sampled(runtime: Path, tmp_path: Path) -> None:
    bench = RailBench()
    rails = LiveRails(runtime, BenchClock(bench))
    assert rails.since("board-1", -1).reason == live.NOBODY
    recorder = sampling(bench, runtime, tmp_path / "power.trace")
    bench.play(recorder, ("idle", 3.0))
    first = rails.since("board-1", -1)
    assert (first.reason, first.begins) == ("", True)
    assert len(first.steps) == pytest.approx(3.0 / (STEP_NS / 1e9), abs=2)
    expected = bench.watts("idle")
    for place, name in enumerate(first.rails):
        mean = statistics.fmean(step.watts[place] or 0.0 for step in first.steps)
        assert mean == pytest.approx(expected[name], rel=0.1, abs=0.005), name
    bench.play(recorder, ("idle", 1.0))
    more = rails.since("board-1", first.last)
    assert (more.begins, more.last - first.last) == (False, len(more.steps))
    assert more.steps[0].t_ns - first.steps[-1].t_ns == STEP_NS, "no step is given twice, none is left out"
    assert rails.since("board-1", more.last).steps == ()


def test_the_next_sampler_goes_on_where_the_one_before_ended(runtime: Path, tmp_path: Path) -> None:
    bench = RailBench()
    rails = LiveRails(runtime, BenchClock(bench))
    recorder = sampling(bench, runtime, tmp_path / "1.trace")
    bench.play(recorder, ("idle", 1.0))
    first = rails.since("board-1", -1)
    recorder.close()
    ended = rails.since("board-1", first.last)
    assert ended.reason == live.NOBODY
    second = sampling(bench, runtime, tmp_path / "2.trace")
    bench.play(second, ("idle", 1.0))
    (tmp_path / "1.trace").unlink()
    again = rails.since("board-1", ended.last)
    assert (again.reason, again.begins) == ("", False)
    assert len(again.steps) >= 8
    second.close()


def test_only_the_last_minute_is_shown_however_long_a_trace_is(runtime: Path, tmp_path: Path) -> None:
    bench = RailBench()
    recorder = sampling(bench, runtime, tmp_path / "power.trace", AdcRange.SLEEP)
    bench.play(recorder, ("idle", 300.0))
    found = LiveRails(runtime, BenchClock(bench)).since("board-1", -1)
    assert bench.now_ns - live.SPAN_NS <= found.steps[0].t_ns < bench.now_ns - live.SPAN_NS + 5_000_000_000
    recorder.close()


def test_a_sampler_that_was_killed_samples_no_more(runtime: Path, tmp_path: Path) -> None:
    bench = RailBench()
    recorder = sampling(bench, runtime, tmp_path / "power.trace")
    bench.play(recorder, ("idle", 1.0))
    told = SamplerStatus("board-1", str(tmp_path / "power.trace"), process.identity())
    host, boot, _, _ = told.holder.rsplit("/", 3)
    rails = LiveRails(runtime, BenchClock(bench))
    assert rails.since("board-1", -1).reason == ""
    status_files.write(
        runtime / status_files.SAMPLERS, "board-1", evolve(told, holder=f"{host}/{boot}/{os.getpid()}/1")
    )
    assert rails.since("board-1", -1).reason == live.NOBODY


@pytest.mark.parametrize("content", [None, b"", b"no trace\n"])
def test_a_trace_that_cannot_be_read_is_said(runtime: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "power.trace").write_bytes(content)
    told = SamplerStatus("b", str(tmp_path / "power.trace"), process.identity())
    status_files.write(runtime / status_files.SAMPLERS, "b", told)
    assert "power.trace" in LiveRails(runtime).since("b", -1).reason


def test_a_sensor_without_an_answer_has_no_power(runtime: Path, tmp_path: Path) -> None:
    bench = RailBench()
    recorder = sampling(bench, runtime, tmp_path / "power.trace")
    bench.troubles.append(planned("sensor_nack", share=1.0).fault(1))
    bench.play(recorder, ("idle", 1.0))
    rails = LiveRails(runtime, BenchClock(bench))
    piece = rails.since("board-1", -1)
    place = piece.rails.index("vdd_core")
    assert {step.watts[place] for step in piece.steps} == {None}
    assert None not in {step.watts[place - 1] for step in piece.steps}
    sent = json.loads(document(piece, bench.now_ns))
    assert sent["steps"][0][1 + place] is None
    assert sent["now_ms"] - sent["steps"][-1][0] < 1000
    recorder.close()


def test_a_trace_of_another_hosts_clock_is_shown_at_the_times_of_this_one(runtime: Path, tmp_path: Path) -> None:
    bench, ahead_ns = RailBench(), 100_000 * 10**9
    recorder = sampling(bench, runtime, tmp_path / "power.trace")
    bench.play(recorder, ("idle", 1.0))
    here = LiveRails(runtime, BenchClock(bench)).since("board-1", -1)
    told = SamplerStatus("board-1", str(tmp_path / "power.trace"), process.identity(), ahead_ns)
    status_files.write(runtime / status_files.SAMPLERS, "board-1", told)
    clock = BenchClock(bench)
    there = LiveRails(runtime, clock)
    there.clock = SimpleNamespace(now_ns=lambda: clock.now_ns() - ahead_ns)
    found = there.since("board-1", -1)
    assert [step.t_ns for step in found.steps] == [step.t_ns - ahead_ns for step in here.steps]
    recorder.close()
