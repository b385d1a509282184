"""The sampler's process on the rails of a bench: it measures what the board drew, and ends whatever happens."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.railbench import config_of, drawn, true_energy_j
from support.virtual_bench import BenchProcess, Console, lab_virtual

from lab.cli import main
from lab.errors import ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.metrics import Flag
from lab.rails import AdcRange, RailsConfig, Trace, sampling
from lab.rails.phase import cut

BOARD = "am62xx_sk-1"
DEADLINE_S = 60.0
PARENT = """
import sys
from pathlib import Path
from lab.rails import RailsConfig, sampling
with sampling(RailsConfig.loads(sys.argv[1]), Path(sys.argv[2])) as sampler:
    print(sampler.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def config(bench: BenchProcess) -> RailsConfig:
    return config_of("am62xx_sk", f"unix:{bench.board.rails}", BOARD)


def has(path: Path, samples: int) -> Trace:
    """The trace once it has so many samples."""
    clock = MonotonicRaw()
    end_ns = clock.now_ns() + round(DEADLINE_S * 1e9)
    while True:
        with contextlib.suppress(ConfigurationError):
            trace = Trace.open(path)
            if len(trace.records) >= samples:
                return trace
        assert clock.now_ns() < end_ns, "no samples came"


def ready(fd: int) -> bool:
    """Whether something can be read in time."""
    return bool(select.select([fd], [], [], DEADLINE_S)[0])


def ends(pid: int) -> bool:
    """Whether a process that is not our child ends in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return ready(fd)
    finally:
        os.close(fd)


def test_a_boot_is_measured_with_its_true_energy(bench: BenchProcess, config: RailsConfig, tmp_path: Path) -> None:
    path = tmp_path / "boot.trace"
    with sampling(config, path) as sampler:
        console = Console(bench.board.uarts["main0"])
        assert bench.power("on") == 200
        console.until(rb"am62xx-evm login: ")
        console.close()
        has(path, len(sampler.trace().records) + 2000)
        assert bench.power("off") == 200
        has(path, len(sampler.trace().records) + 1000)
    trace = Trace.open(path)
    assert trace.ended
    start_ns, end_ns = trace.span_ns
    power = cut(trace, start_ns, end_ns)
    assert {state for _, state, _ in drawn(Path(bench.board.truth))} >= {"off", "rom", "boot", "idle"}
    assert power.total.energy_j == pytest.approx(true_energy_j(Path(bench.board.truth), start_ns, end_ns), rel=0.01)
    assert Flag.POWER_IMPLAUSIBLE not in power.flags


def test_a_reader_sees_the_trace_grow_and_the_sampler_does_not_mind(config: RailsConfig, tmp_path: Path) -> None:
    with sampling(config, tmp_path / "a.trace") as sampler:
        first = has(sampler.path, 10)
        more = has(sampler.path, len(first.records) + 500)
        assert not more.ended
        assert (more.records[: len(first.records)] == first.records).all()


def test_who_cuts_a_phase_gets_what_was_sampled_until_its_end(config: RailsConfig, tmp_path: Path) -> None:
    with sampling(config, tmp_path / "a.trace") as sampler:
        for _ in range(20):
            now_ns = MonotonicRaw().now_ns()
            trace = sampler.trace(now_ns)
            assert int(trace.records["t_ns"][-1]) + trace.meta.period_ns + trace.meta.late_ns >= now_ns


def test_a_killed_sampler_leaves_a_trace_up_to_its_last_sample_and_is_reported(
    config: RailsConfig, tmp_path: Path
) -> None:
    path = tmp_path / "a.trace"

    def kill_it() -> None:
        with sampling(config, path) as sampler:
            has(path, 200)
            os.kill(sampler.pid, signal.SIGKILL)
            assert ends(sampler.pid)

    with pytest.raises(LabTransientError, match="ended on the way"):
        kill_it()
    trace = Trace.open(path)
    assert not trace.ended
    assert len(trace.records) >= 200
    assert cut(trace, *trace.span_ns).total.mean_w is not None


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.soak) for number in (signal.SIGINT, signal.SIGTERM))],
)
def test_the_sampler_ends_with_whoever_started_it(config: RailsConfig, tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "a.trace"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, config.dumps(), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    has(path, 50)
    parent.send_signal(number)
    parent.wait(DEADLINE_S)
    assert ends(pid)
    parent.communicate()
    assert Trace.open(path).ended, "it ended by itself, and said so"


def test_a_sensor_that_is_not_there_is_named_before_anything_is_measured(
    config: RailsConfig, tmp_path: Path, bench: BenchProcess
) -> None:
    wrong = RailsConfig.loads(config.dumps().replace('"address": 64', '"address": 79'))
    silent = pytest.raises(LabTransientError, match=r"0x4f \(vdd_core\).*not")
    with silent, sampling(wrong, tmp_path / "a.trace"):
        pass
    nowhere = RailsConfig.loads(config.dumps().replace(bench.board.rails, str(tmp_path / "nobody.sock")))
    with pytest.raises(ConfigurationError, match="listens"), sampling(nowhere, tmp_path / "a.trace"):
        pass


def test_the_self_test_finds_what_is_swapped(bench: BenchProcess, tmp_path: Path) -> None:
    lab = Path(sys.executable).with_name("lab")
    env = bench.folder / BOARD / "env.yaml"
    assert bench.power("on") == 200
    good = subprocess.run([lab, "rails", "selftest", "--env", env], check=False, capture_output=True, text=True)
    assert good.returncode == 0, good.stderr
    assert "0x40     vdd_core" in good.stdout
    swapped = tmp_path / "env.yaml"
    text = env.read_text()
    swapped.write_text(text.replace("0x42", "0x4X").replace("0x43", "0x42").replace("0x4X", "0x43"))
    bad = subprocess.run([lab, "rails", "selftest", "--env", swapped], check=False, capture_output=True, text=True)
    assert bad.returncode == 1
    assert not missing_facts(bad.stdout, "swapped", "soc_dvdd_1v8", "exchange")
    assert not missing_facts(bad.stderr, "2 of 5 rails", "soc_dvdd_1v8", "soc_dvdd_3v3")
    assert bench.power("off") == 200
    off = subprocess.run([lab, "rails", "selftest", "--env", env], check=False, capture_output=True, text=True)
    assert not missing_facts(off.stdout, "no voltage", "board on")
    assert off.returncode == 1


def test_a_board_is_switched_from_the_command_line_and_its_rails_tell_whether_it_has_power(
    bench: BenchProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path))
    env = str(bench.folder / BOARD / "env.yaml")
    assert main(["power", "on", "--env", env]) == 0
    assert bench.status()["power"] == "on"
    assert not missing_facts(capsys.readouterr().out, f"{BOARD}: on", "Verified", "rails")
    assert main(["power", "off", "--env", env]) == 0
    assert bench.status()["power"] == "off"
    assert not missing_facts(capsys.readouterr().out, f"{BOARD}: off", "Verified", "0.00 to 0.00 V")


def test_power_is_sampled_shown_and_drawn_from_the_command_line(bench: BenchProcess, tmp_path: Path) -> None:
    lab = Path(sys.executable).with_name("lab")
    env = bench.folder / BOARD / "env.yaml"
    trace, plot = tmp_path / "a.trace", tmp_path / "a.svg"
    done = subprocess.run(
        [lab, "rails", "trace", "--env", env, "--seconds", "1", "-o", trace],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "vddr_core" in done.stdout
    assert "n/a" in done.stdout
    shown = subprocess.run(
        [lab, "rails", "show", trace, "--to", "0.5", "--plot", plot], check=False, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert plot.read_text().startswith("<svg ")
    assert lab_virtual("status", "--dir", bench.folder).returncode == 0


def test_range_sleep_averages_in_the_sensor(config: RailsConfig, tmp_path: Path) -> None:
    with sampling(config, tmp_path / "a.trace", AdcRange.SLEEP) as sampler:
        assert "average of 1024, shunt 1100 us" in sampler.trace().meta.settings


def test_watching_shows_the_rails_until_ctrl_c(bench: BenchProcess) -> None:
    lab = Path(sys.executable).with_name("lab")
    process = subprocess.Popen(
        [lab, "rails", "watch", "--env", bench.folder / BOARD / "env.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert ready(process.stdout.fileno()), "nothing was shown"
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "soc_dvdd_3v3" in shown
    assert said == ""
