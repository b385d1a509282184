"""The rails server: a trace comes over a socket as it was sampled, whole or with an error; never half and silent."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from support.railsserved import DEADLINE_S, hwmon, running_rails_server

from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw, time_line
from lab.rails import RailsConfig, Trace
from lab.rails.remote import RailsServer
from lab.rails.server import rails_socket


@pytest.fixture
def sensor(tmp_path: Path) -> RailsConfig:
    return hwmon(tmp_path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[RailsServer, subprocess.Popen[bytes]]]:
    runtime = tmp_path / "run"
    with running_rails_server(runtime) as process:
        yield RailsServer(lambda: rails_socket(runtime), "lab-2"), process


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_trace_of_another_host_grows_here_and_ends_with_the_block(
    served: tuple[RailsServer, object], sensor: RailsConfig, tmp_path: Path
) -> None:
    server, _ = served
    path = tmp_path / "power.trace"
    assert server.volts(sensor, 0.2) == {"vdd_core": pytest.approx(0.85)}
    with server.sampling(sensor, path, line=time_line()) as sampler:
        until_ns = MonotonicRaw().now_ns()
        wait_for(lambda: len(sampler.trace(until_ns).records) >= 3)
        assert sampler.alive
        assert not sampler.trace().ended
    trace = Trace.open(path)
    assert trace.ended
    assert trace.meta.board == "b1"
    assert trace.records["t_ns"][-1] >= until_ns
    assert set(trace.records["bus_uv"]) == {850_000}
    assert rails_socket(tmp_path / "run").stat().st_mode & 0o077 == 0


def test_a_server_that_is_killed_fails_the_measurement(
    served: tuple[RailsServer, subprocess.Popen[bytes]], sensor: RailsConfig, tmp_path: Path
) -> None:
    server, process = evolve(served[0], patience_s=1.0), served[1]

    def measure() -> None:
        with server.sampling(sensor, tmp_path / "power.trace") as sampler:
            os.kill(process.pid, signal.SIGKILL)
            wait_for(lambda: not sampler.alive)

    with pytest.raises(LabTransientError, match=r"cut.*1 s: .*lab-2") as caught:
        measure()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert caught.value.failure == "power_sampler"
    with pytest.raises(LabTransientError, match=r"`lab rails serve`.*there"):
        server.volts(sensor, 0.1)


def test_another_clock_than_the_consoles_is_refused_and_so_are_wrong_wirings(
    served: tuple[RailsServer, object], sensor: RailsConfig, tmp_path: Path
) -> None:
    server, _ = served
    with (
        pytest.raises(LabTransientError, match="stamps by another clock") as caught,
        server.sampling(sensor, tmp_path / "power.trace", line="another boot"),
    ):
        pass
    assert caught.value.failure == "clock_unrelated"
    wrong = RailsConfig("b1", "hwmon", str(tmp_path / "nothing"), sensor.rails)
    with pytest.raises(ConfigurationError, match="on lab-2: "), server.sampling(wrong, tmp_path / "power.trace"):
        pass
