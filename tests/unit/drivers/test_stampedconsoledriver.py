"""The console driver over a loss of its adapter that nobody waited for, on a simulated board in virtual time."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.simruns import SimBench, bench

from lab.console.model import Event, Gap, RecordKind
from lab.errors import BoardlabError

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
