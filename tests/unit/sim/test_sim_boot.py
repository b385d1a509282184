"""Simulated boards boot as real ones do: in text, in order, in time, and the same again with the same seed."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from support.simlab import S, SimLab

from lab import boards
from lab.benchmarks.boot import BootWatch, PowerEdge
from lab.console.model import Chunk, LineTiming
from lab.console.moments import MomentFinder, feed_watch
from lab.console.printk import fit_printk
from lab.errors import ConfigurationError
from lab.metrics.catalogue import BOOT_TIME
from lab.virtual import kinds
from lab.virtual.sim import timing
from lab.virtual.sim.model import model, simulated
from lab.virtual.sim.timing import CUT_SIGMA, dice

NEWEST = [(name, medium) for name in simulated() for medium in boards.load(name).media]
PROMPT = "-evm login: "


def watched(lab: SimLab, medium: str) -> BootWatch:
    """What our own judgement makes of the boot."""
    board = lab.board.model.board
    watch = BootWatch(board, medium, PowerEdge(1000 * S, 1000 * S))
    finder = MomentFinder(board.moments, LineTiming(115200))
    position = 0
    for t_ns, data in lab.ports[lab.console].chunks:
        feed_watch(watch, Chunk(t_ns, position, data), [finder])
        position += len(data)
        watch.check(t_ns)
    now_ns = t_ns + round(board.timeouts.settle_s * S)
    watch.check(now_ns)
    watch.asked(now_ns)
    watch.check(now_ns + 10 * S)  # nobody answers: the board's time does not go on
    return watch


def booted(board_type: str = "am62xx_sk", medium: str = "sd", **options: object) -> SimLab:
    lab = SimLab(board_type, **options)
    lab.on(medium)
    lab.run_until(PROMPT)
    return lab


def test_all_types_can_be_simulated() -> None:
    assert set(simulated()) == set(boards.names()) - set(kinds.QEMU)


@pytest.mark.parametrize(("board_type", "medium"), NEWEST)
def test_every_type_boots_from_every_medium_and_says_from_which(board_type: str, medium: str) -> None:
    watch = watched(booted(board_type, medium), medium)
    assert watch.done
    assert set(watch.seen.values()) == {medium}
    assert len(watch.seen) >= 2
    assert watch.finish()


@pytest.mark.parametrize("release", ["08.05", "09.02", "10.00", "11.01"])
def test_every_release_speaks_with_its_own_strings(release: str) -> None:
    said = booted(release=release).said()
    facts = boards.load("am62xx_sk").releases[release]
    # The log of SDK 8.5 has another build of the first SPL:
    assert said.count(f"U-Boot SPL {facts.uboot}") == (1 if release == "08.05" else 2)
    assert said.count("U-Boot SPL ") == 2
    assert f"\nU-Boot {facts.uboot}" in said
    assert said.count(f"SYSFW ABI: {facts.sysfw}") >= 2
    assert f"Linux version {facts.kernel} " in said
    assert f"{facts.distribution} am62xx-evm ttyS2" in said
    assert ("Authentication passed" in said) == (facts.device != "GP")


def test_the_boot_time_is_the_drawn_one_and_lies_where_the_guide_says() -> None:
    times = []
    for seed in range(8):
        lab = booted(seed=seed)
        sample = next(s for s in watched(lab, "sd").finish() if s.metric == BOOT_TIME.name)
        assert lab.board.computer is not None
        assert sample.value == pytest.approx(lab.board.computer.durations.boot_ns / S, abs=0.001)
        times.append(sample.value)
    figure = boards.load("am62xx_sk").releases["11.01"].published.boot_s["sd"]
    spread = timing.Normal.of(figure).sd
    assert all(abs(value - figure.mean) <= CUT_SIGMA * spread + 0.001 for value in times)
    assert len(set(times)) == len(times)


def test_every_text_says_where_its_lines_are_from_and_what_is_assumed() -> None:
    texts = sorted((resources.files("lab.virtual.sim") / "texts").iterdir(), key=lambda text: text.name)
    assert len(texts) == 16
    for text in texts:
        head = text.read_text(encoding="utf-8").partition("#}")[0]
        assert head.startswith("{# Forms"), text.name
        assert "assumed" in head, text.name


def test_a_board_that_waits_for_somebody_plans_nothing() -> None:
    lab = booted()
    lab.run_for(1 * S)
    assert lab.board.deadline_ns() is None
    lab.off()
    assert lab.board.deadline_ns() is None


def test_draws_have_the_stated_mean_and_spread() -> None:
    figure = timing.Normal(16.24, 0.12)
    draws = [figure.draw(dice(1, number)) for number in range(2000)]
    mean = sum(draws) / len(draws)
    assert mean == pytest.approx(16.24, abs=0.12 * 4 / 2000**0.5)
    assert max(abs(draw - 16.24) for draw in draws) <= CUT_SIGMA * 0.12


def test_the_same_seed_says_the_same_bytes_at_the_same_time_and_another_one_does_not() -> None:
    first, second, other = booted(seed=5), booted(seed=5), booted(seed=6)
    assert first.ports["main0"].sent == second.ports["main0"].sent
    assert first.ports["main0"].sent != other.ports["main0"].sent


def test_each_cycle_of_a_board_is_drawn_anew() -> None:
    lab = booted()
    first = lab.board.computer
    lab.off()
    lab.run_for(2 * S)
    lab.on()
    lab.run_until(PROMPT)
    assert first is not None
    assert lab.board.computer is not None
    assert lab.board.computer.durations != first.durations
    assert lab.board.cycle == 2


def test_haste_shortens_the_work_but_not_the_uart() -> None:
    slow, quick = booted(), booted(time_scale=0.05)
    assert quick.said() == slow.said() or len(quick.said()) == pytest.approx(len(slow.said()), rel=0.01)
    took_s = [(lab.now_ns - 1000 * S) / S for lab in (slow, quick)]
    line_s = len(quick.said()) * 10 / 115200
    assert took_s[0] > 20
    assert line_s < took_s[1] < line_s + 2


def test_the_kernels_stamps_agree_with_the_host_but_for_what_waited_for_the_console() -> None:
    lab = booted()
    chunks, position = [], 0
    for t_ns, data in lab.ports[lab.console].chunks:
        chunks.append(Chunk(t_ns, position, data))
        position += len(data)
    fit = fit_printk(chunks, LineTiming(115200))
    assert fit is not None
    assert abs(fit.rate_ppm) < 200
    stamps = [float(found) for found in re.findall(r"^\[ +(\d+\.\d{6})\]", lab.said(), re.MULTILINE)]
    assert stamps == sorted(stamps)
    assert stamps.count(0.0) > 20


def test_an_early_console_prints_each_line_as_it_comes() -> None:
    waited, early = booted(release="10.00"), booted(release="09.02")
    assert "earlycon" in early.said()
    assert "earlycon" not in waited.said()
    assert watched(early, "sd").finish()


def test_pins_that_select_no_medium_leave_the_board_silent() -> None:
    lab = SimLab()
    lab.straps = 0x07B
    lab.switch("on")
    lab.run_for(60 * S)
    assert lab.said() == ""
    assert lab.board.stage == "rom-without-medium"


def test_power_off_silences_the_board_at_once_and_it_does_not_answer() -> None:
    lab = booted()
    lab.off()
    before = lab.said()
    lab.type("root\r")
    lab.run_for(5 * S)
    assert lab.said() == before
    assert lab.board.stage == "off"


def test_a_board_in_the_middle_of_its_boot_can_be_switched_off_and_on() -> None:
    lab = SimLab()
    for _ in range(3):
        lab.on()
        lab.run_for(4 * S)
        lab.off()
        lab.run_for(1 * S)
    lab.on()
    lab.run_until(PROMPT)
    assert watched(last_boot_only(lab), "sd").finish()


def last_boot_only(lab: SimLab) -> SimLab:
    """The lab with the bytes of its last boot only."""
    port = lab.ports[lab.console]
    banner = [number for number, (_, data) in enumerate(port.chunks) if b"U-Boot SPL" in data]
    spl = max(number for number in banner[:-1])
    port.chunks = port.chunks[spl:]
    return lab


def test_the_notes_tell_each_stage_and_what_was_planned_for_it() -> None:
    lab = booted()
    stages = [note.split("stage=")[1].split()[0] for note in lab.notes if "stage=" in note]
    assert stages == ["rom", "spl", "tfa", "uboot", "load", "kernel", "user", "login"]
    planned = [note for note in lab.notes if "planned_ns" in note]
    assert len(planned) == 5


def test_a_type_or_release_that_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="am62xx_sk"):
        model("qemu-virt")
    with pytest.raises(ConfigurationError, match=r"11\.01"):
        model("am62xx_sk", "07.03")


@pytest.mark.parametrize("late_s", [0.3, 2.0])
def test_a_kernel_on_a_bench_that_is_late_is_never_ahead_of_its_own_start(late_s: float) -> None:
    lab = SimLab("am62xx_sk")
    lab.on("sd")
    lab.run_until("Starting kernel")
    lab.now_ns += round(late_s * S)  # the bench stood still, and is called now
    stamped_ns = lab.now_ns
    lab.run_until("login: ")
    lab.type("root\r")
    lab.run_until("# ")
    asked_ns = lab.now_ns
    uptime = float(lab.command("cat /proc/uptime", "# ").split()[0])
    assert (lab.now_ns - round(uptime * S) - stamped_ns) / S > 0, "its clock began when that text was out, or later"
    assert asked_ns - round(uptime * S) < stamped_ns + 2 * S
