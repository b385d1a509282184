"""The console driver over a loss of its adapter that nobody waited for, on a simulated board in virtual time."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.atlength import either
from support.chaos_verdict import Story, boot_times, judge, untrue
from support.simprovision import provisioning
from support.simruns import SimBench, bench, planned

from lab.console.model import Event, Gap, RecordKind
from lab.drivers.consoleport import RETURN_S
from lab.errors import BoardlabError
from lab.results import Attempt
from lab.virtual.sim.faults import catalogue

TIMES = either(2, 20)  # of each
LOST, BACK = Gap(0, 0, RecordKind.LOST, errno.EIO), Gap(1, 0, RecordKind.BACK)


def lose(made: SimBench, monkeypatch: pytest.MonkeyPatch, *gaps: Event) -> None:
    """The next events are these; the board's come after them."""
    console, waiting = made.strategy.console, list(gaps)
    next_event = console._next_event
    monkeypatch.setattr(
        console,
        "_next_event",
        lambda timeout: waiting.pop(0) if waiting else next_event(timeout) if gaps[-1] is BACK else None,
    )


@pytest.mark.parametrize("lives", [True, False])
def test_an_adapter_that_went_and_came_before_power_off_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    with bench(tmp_path) as made:
        made.strategy.transition("linux")
        made.strategy.lives = lives
        lose(made, monkeypatch, LOST, BACK)
        made.strategy.off()
        assert made.lab.outlet == "off"


@pytest.mark.parametrize("lives", [True, False])
def test_an_adapter_that_is_away_before_power_off_is_not_one_that_the_board_feeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    with bench(tmp_path) as made:
        made.strategy.transition("linux")
        made.strategy.lives = lives
        lose(made, monkeypatch, LOST)
        with pytest.raises(BoardlabError) as raised:
            made.strategy.off()
        assert raised.value.failure == "adapter_lost"


STEPS = {"power on": "rom", "boot": "kernel.middle", "login": "login.prompt"}


def losses(point: str, times: int, seed: str) -> list[catalogue.Planned]:
    """At each second power-on the adapter is pulled at a point of the boot, for a time drawn at random."""
    dice = random.Random(seed)
    return [
        planned("adapter_lost", cycles=f"{2 * number + 1}", at_point=point, seconds=dice.uniform(0, 2 * RETURN_S))
        for number in range(times)
    ]


@pytest.mark.longer
@pytest.mark.parametrize("step", STEPS)
def test_an_adapter_that_is_pulled_at_a_step_of_a_boot_gives_no_wrong_time(tmp_path: Path, step: str) -> None:
    with bench(tmp_path, losses(STEPS[step], TIMES, step), cycles=TIMES, time_scale=0.25) as made:
        attempts = made.measure()
        timed = boot_times(made.run.run, attempts)
        assert untrue([judge(boot, [Story(made.truth())]) for boot in timed]) == []
    assert_named(attempts)
    assert (len(attempts), len(timed)) == (2 * TIMES, TIMES), "each second boot was struck, and tried again"


@pytest.mark.longer
def test_an_adapter_that_is_pulled_in_the_cross_check_gives_no_wrong_time(tmp_path: Path) -> None:
    """The boot is timed by then, so it may hold."""
    with bench(tmp_path, losses("shell.command", TIMES, "cross-check"), cycles=2 * TIMES, time_scale=0.25) as made:
        attempts = made.measure()
        timed = boot_times(made.run.run, attempts)
        assert untrue([judge(boot, [Story(made.truth())]) for boot in timed]) == []
    assert_named(attempts)
    assert len(timed) == 2 * TIMES


@pytest.mark.longer
def test_an_adapter_that_is_pulled_while_the_board_sleeps_is_named_and_the_next_suspend_holds(tmp_path: Path) -> None:
    for folder, loss in at_first(tmp_path, "suspend.asleep"):
        with bench(folder, [loss], time_scale=0.25) as made:
            first, second = made.sleep()
        assert (first.outcome, first.fault, first.transient) == ("adapter_lost", "lab", True)
        assert second.outcome == "ok"


@pytest.mark.longer
def test_an_adapter_that_is_pulled_during_a_write_is_named_and_the_next_write_holds(tmp_path: Path) -> None:
    for folder, loss in at_first(tmp_path, "uboot.write"):
        with provisioning(folder, over="console", fault=loss) as made:
            before = made.elsewhere()
            first, second = made.told()
            assert made.elsewhere() == before
        assert (first.outcome, first.fault, first.transient) == ("adapter_lost", "lab", True)
        assert second.outcome == "ok"


def at_first(folder: Path, point: str) -> Iterator[tuple[Path, catalogue.Planned]]:
    """Folders, each with a loss at a point after the first power-on."""
    dice = random.Random(point)
    for number in range(TIMES):
        own = folder / f"{number}"
        own.mkdir()
        yield own, planned("adapter_lost", at_point=point, seconds=dice.uniform(0, 2 * RETURN_S))


def assert_named(attempts: Sequence[Attempt]) -> None:
    """Each failure is the adapter's."""
    failed = [attempt for attempt in attempts if not attempt.ok]
    assert {(each.outcome, each.fault, each.transient) for each in failed} == {("adapter_lost", "lab", True)}
    assert all("look at the adapter, its cable" in each.message for each in failed)
