"""Low power on real benches: simulated boards with a truth log, and QEMU, which really suspends and resumes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from labgrid.environment import Environment
from support.atlength import either
from support.facts import missing_facts
from support.measuring_lab import ENOUGH, Lab, Number, assert_true, running_lab
from support.railbench import true_energy_j
from support.virtual_bench import lab_virtual

from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.results import Attempt, Store, open_store
from lab.virtual.truth_log import Truth, read_truth

DEADLINE_S = 240
BOARD = "am62xx_sk-1"
CYCLES = either(1, 2)
QEMU_MODES = ("deep_sleep", "standby", "s2idle")
KERNEL, PROMPT = "lpm.deep_sleep.resume_kernel", "lpm.deep_sleep.resume_wake_to_prompt"


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    words = ("sim", "--type", "am62xx_sk", "--type", "am62xx_lp_sk", "--type", "am62xxsip_sk", "--time-scale", "0.05")
    with running_lab(tmp_path_factory.mktemp("sim"), *words) as lab:
        yield lab


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("qemu")) as lab:
        yield lab


def session(lab: Lab, *arguments: str, board: str = BOARD) -> subprocess.Popen[bytes]:
    env = lab.bench.folder / board / "env.yaml"
    where = ("--lg-env", str(env)) if env.exists() else ()
    return lab.pytest(*where, "--lab-sleep", "1", *arguments, measures="test_low_power.py")


def attempts(lab: Lab) -> list[Attempt]:
    """Of the newest run."""
    with open_store(lab.environ["LAB_DB"]) as store:
        return list(store.attempts(runs[0].id)) if (runs := store.runs()) else []


def truth_of(lab: Lab, board: str = BOARD) -> Truth:
    return read_truth(Path(lab.bench.folder / board / "truth.log"))


def prompts(lab: Lab) -> list[Number]:
    """From the wake-up to the prompt, of the newest run."""
    found, truth = attempts(lab), truth_of(lab)
    woken = [note.t_ns for note in truth.notes if " woken " in note.text][-len(found) :]
    answers = truth.find(rb"boardlab: back \d")[-len(found) :]
    measured = [next(s for s in a.samples if s.metric.endswith(".resume_wake_to_prompt")) for a in found]
    return [
        (s.value / 1e3, s.uncertainty / 1e3, (answer_ns - woken_ns) / 1e9)
        for s, woken_ns, answer_ns in zip(measured, woken, answers, strict=True)
    ]


def measured_prompts(lab: Lab, *words: str) -> list[Number]:
    """Those of a session of good cycles."""
    assert session(lab, *words).wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    return prompts(lab)


def wait_for_samples(lab: Lab, process: subprocess.Popen[bytes], more_than: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(lab.samples(KERNEL)) <= more_than:
        assert process.poll() is None, lab.log
        assert time.monotonic() < deadline, lab.log
        time.sleep(0.1)


@pytest.mark.longer
def test_both_modes_are_measured_verified_and_true(sim: Lab) -> None:
    modes = ("--lab-mode", "deep_sleep,mcu_only")
    assert session(sim, *modes, "--lab-cycles", str(CYCLES)).wait(DEADLINE_S) == pytest.ExitCode.OK, sim.log
    found = attempts(sim)
    assert [(a.params["mode"], a.cycle, a.outcome) for a in found] == [
        (mode, cycle, "ok") for mode in ("deep_sleep", "mcu_only") for cycle in range(1, CYCLES + 1)
    ]
    notes = truth_of(sim).notes
    worked = [int(n.text.rpartition("planned_ns=")[2]) for n in notes if "stage=resume " in n.text][-len(found) :]
    for attempt, kernel_ns in zip(found, worked, strict=True):
        kernel, first_byte, prompt, *_powers = attempt.samples  # a sleep that took longer may have a mean power
        assert abs(kernel.value - kernel_ns / 1e6) <= kernel.uncertainty
        assert kernel.value < first_byte.value + first_byte.uncertainty, (
            "the firmware's share comes before the kernel's"
        )
        assert first_byte.value < prompt.value
        assert kernel.flags == {"simulated"}, "the kernel and the MCU's UART name the mode"
        assert attempt.details["software"]["kernel"].startswith("Linux version ")
        assert attempt.details["suspend"]["mcu_uart"].count("MCU-only mode received") == (
            attempt.params["mode"] == "mcu_only"
        )
    with open_store(sim.environ["LAB_DB"]) as store:
        for attempt in found:
            assert_evidence(store, attempt)
    assert_true(prompts(sim), more=lambda: measured_prompts(sim, *modes, "--lab-cycles", str(ENOUGH // 2)))


def assert_evidence(store: Store, attempt: Attempt) -> None:
    """The latencies are in the console log, where they say."""
    ref = attempt.artifact("console-log")
    assert ref is not None
    kernel, _, prompt, *_powers = attempt.samples
    log = store.artifacts.read(ref.sha256)
    assert log[kernel.log_start : kernel.log_end].split(b":", 1)[1].startswith(b"<6>[")
    assert b"Enabling non-boot CPUs" in log[kernel.log_start : kernel.log_end]
    assert log[: kernel.log_end].endswith(b"PM: suspend exit")
    assert log[: prompt.log_end].endswith(b"boardlab: back 0")


def test_the_energy_of_a_suspend_and_resume_is_true_within_one_percent_or_flagged(sim: Lab) -> None:
    done = session(sim, "--lab-mode", "deep_sleep", "--lab-cycles", "1", "--lab-energy")
    assert done.wait(DEADLINE_S) == pytest.ExitCode.OK, sim.log
    (attempt,) = attempts(sim)
    energies = {s.params["rail"]: s for s in attempt.samples if s.metric == "lpm.deep_sleep.energy"}
    start_ns, end_ns = attempt.details["suspend"]["energy_span_ns"]
    true_j = true_energy_j(Path(sim.bench.folder / BOARD / "truth.log"), start_ns, end_ns)
    gaps_j = energies["total"].uncertainty if "power_gap" in energies["total"].flags else 0.0  # of a starved sampler
    assert energies["total"].value == pytest.approx(true_j, rel=0.01, abs=gaps_j)
    assert energies["total"].value == pytest.approx(sum(e.value for r, e in energies.items() if r != "total"))
    assert "vdd_core" in energies
    (answer,) = [moment for moment in attempt.moments if moment.name == "answer"]
    assert end_ns == answer.t_ns


@pytest.mark.longer
def test_a_pulse_on_a_gpio_behind_labgrids_digital_output_wakes_the_board(sim: Lab) -> None:
    """As docs/low-power.md wires it: the host stamps the edge, and the latency counts from there."""
    env = sim.bench.folder / BOARD / "gpio.yaml"
    output = f"HttpDigitalOutput: {{name: WKGPIO, url: 'http://{sim.bench.state.http}/boards/{BOARD}/pins/gpio', "
    output += "body_asserted: 'on', body_deasserted: 'off'}"
    driver = "- HttpDigitalOutputDriver: {name: WKGPIO, bindings: {http: WKGPIO}}"
    text = (sim.bench.folder / BOARD / "env.yaml").read_text()
    text = text.replace("    resources:\n", f"    resources:\n      - {output}\n", 1)
    text = text.replace("pins: {can: CAN}", "pins: {can: CAN, gpio: WKGPIO}")
    env.write_text(text.replace("    drivers:\n", f"    drivers:\n      {driver}\n", 1))
    words = ("--lg-env", str(env), "--lab-mode", "deep_sleep", "--lab-wake", "gpio")
    found = measured_prompts(sim, *words, "--lab-cycles", str(CYCLES))
    for attempt in attempts(sim):
        (prompt,) = [sample for sample in attempt.samples if sample.metric == PROMPT]
        assert prompt.params["wake"] == "gpio"
        assert "mode_unverified" not in prompt.flags
    assert_true(found, more=lambda: measured_prompts(sim, *words, "--lab-cycles", str(ENOUGH)))


def test_partial_io_is_measured_by_its_cold_boot(sim: Lab) -> None:
    board = "am62xx_lp_sk-1"
    done = session(sim, "--lab-mode", "partial_io", "--lab-cycles", "1", board=board)
    assert done.wait(DEADLINE_S) == pytest.ExitCode.OK, sim.log
    tried = attempts(sim)
    assert {attempt.outcome for attempt in tried} <= {"ok", "stamps_uncertain"}, "a starved host's own fault"
    (attempt,) = [attempt for attempt in tried if attempt.ok]
    sample, rails = attempt.samples
    wanted = {"mode": "partial_io", "wake": "can"}
    assert (sample.metric, sample.params) == ("lpm.partial_io.resume_wake_to_prompt", wanted)
    assert (rails.metric, rails.params) == ("lpm.partial_io.rail_voltage", wanted)
    assert rails.flags - {"power_gap"} == {"simulated"}, "a busy host may leave a gap"
    assert rails.value <= rails.uncertainty < 0.1
    edge_ns = next(m.t_ns for m in attempt.moments if m.name == "spl")
    prompts = truth_of(sim, board).find(rb"-evm login: ")  # of boots, and of answers at them
    prompt_ns = next(t_ns for t_ns in prompts if t_ns > edge_ns)
    assert sample.value + sample.uncertainty > (prompt_ns - edge_ns) / 1e6


def test_a_board_without_low_power_says_so(sim: Lab) -> None:
    assert session(sim, board="am62xxsip_sk-1").wait(DEADLINE_S) == pytest.ExitCode.OK
    assert not missing_facts(sim.log, "AM62x SIP SK", "no low-power")
    assert (
        session(sim, "--lab-mode", "deep_sleep", board="am62xxsip_sk-1").wait(DEADLINE_S)
        == pytest.ExitCode.USAGE_ERROR
    )


@pytest.mark.soak
def test_a_hung_resume_is_an_attempt_without_samples_and_the_cycle_is_tried_again(sim: Lab) -> None:
    told = lab_virtual("fault", BOARD, "hung_resume", "--dir", sim.bench.folder)
    assert told.returncode == 0, told.stderr
    done = session(sim, "--lab-mode", "deep_sleep", "--lab-cycles", "1")
    assert done.wait(DEADLINE_S) == pytest.ExitCode.OK, sim.log
    assert [(a.cycle, a.number, a.outcome) for a in attempts(sim)] == [(1, 1, "hung_resume"), (1, 2, "ok")]


@pytest.mark.soak
@pytest.mark.parametrize(
    "ended_by",
    [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
)
def test_a_session_that_is_ended_while_the_board_sleeps_is_resumed_at_the_next_cycle(sim: Lab, ended_by: int) -> None:
    process = session(sim, "--lab-mode", "deep_sleep", "--lab-cycles", "3")
    with open_store(sim.environ["LAB_DB"]) as store:
        before = {run.id for run in store.runs()}
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline:
        found = attempts(sim)
        if found and found[0].run_id not in before:
            break
        time.sleep(0.1)
    process.send_signal(ended_by)
    process.wait(DEADLINE_S)
    if ended_by != signal.SIGKILL:
        assert sim.bench.status()["power"] == "off"
    run = attempts(sim)[0].run_id
    resumed = session(sim, "--lab-resume", str(run))
    assert resumed.wait(DEADLINE_S) == pytest.ExitCode.OK, sim.log
    assert [(a.cycle, a.outcome) for a in attempts(sim)] == [(1, "ok"), (2, "ok"), (3, "ok")], sim.log
    assert {a.run_id for a in attempts(sim)} == {run}


@pytest.mark.soak
def test_qemu_really_sleeps_in_two_modes_that_differ_and_wakes_by_its_uart_and_its_rtc(
    qemu: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "BOARDLAB_RUNTIME", qemu.environ["BOARDLAB_RUNTIME"])
    env = Environment(config_file=str(qemu.bench.folder / "env.yaml"))
    settings = "/sys/module/boardlab_lpm/parameters"
    try:
        strategy = env.get_target().get_strategy()
        strategy.transition("linux")
        for name, value in {"deep_kernel_ms": 300, "deep_firmware_ms": 100, "shallow_kernel_ms": 1}.items():
            strategy.shell.run_check(f"echo {value} > {settings}/{name}")
        strategy.shell.run_check("(while sleep 0.1; do echo 'PM: suspend exit' > /dev/kmsg; done) > /dev/null 2>&1 &")
        deep = strategy.low_power.cycle(SuspendPlan("deep_sleep", "uart", 1))
        assert (deep.flags, deep.lost_lines) == (set(), 0), "a program's lines are none of the kernel's"
        assert any("PM: suspend exit" in line for line in strategy.shell.run_check("dmesg -r | grep '^<1[0-9]>'"))
        assert (deep.log.variant, deep.unverified) == ("deep", "")
        assert deep.kernel_ms[0] >= 300
        assert sum(deep.since_edge_ms(deep.answer)) >= 400, "the firmware's share is in the host's latency"
        shallow = strategy.low_power.cycle(SuspendPlan("standby", "uart", 1))
        assert (shallow.log.variant, shallow.unverified) == ("shallow", "")
        assert shallow.kernel_ms[0] < deep.kernel_ms[0]
        assert (
            strategy.low_power.cycle(SuspendPlan("s2idle", "rtc", 3)).log.start_text
            == "PM: resume from suspend-to-idle"
        )
        assert strategy.low_power.cycle(SuspendPlan("deep_sleep", "rtc", 3)).edge is None
        assert strategy.shell.run_check("cat /sys/class/tty/ttyAMA0/console") == ["Y"]
        assert strategy.shell.run_check("cat /sys/power/suspend_stats/success") == ["4"]
        strategy.transition("deep_sleep")
        strategy.transition("off")
    finally:
        env.cleanup()


@pytest.mark.soak  # `./run test` measures one of them in the environment perf
def test_qemu_is_measured_in_its_modes(qemu: Lab) -> None:
    done = session(qemu, "--lab-mode", ",".join(QEMU_MODES), "--lab-cycles", "1")
    assert done.wait(DEADLINE_S) == pytest.ExitCode.OK, qemu.log
    assert [(a.params["mode"], a.outcome) for a in attempts(qemu)] == [(mode, "ok") for mode in QEMU_MODES]
    assert all(attempt.details["suspend"]["kernel"]["by_level"] for attempt in attempts(qemu))
    flags = [attempt.samples[0].flags - {"simulated"} for attempt in attempts(qemu)]
    assert frozenset() in flags, "BusyBox and a real kernel answer"
    assert {flag for each in flags for flag in each} <= {"not_cross_checked"}, (
        "a busy host's guest may not answer in time"
    )
