"""How a session's run of cycles ends, and which options it refuses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import ConfigurationError, LabStableError
from lab.pytest_plugin import board
from lab.pytest_plugin.cycles import CycleMeasurer, MeasurerKey
from lab.pytest_plugin.measuring import session_of
from lab.results import open_store


class Lines(list[str]):
    """A terminal."""

    def ensure_newline(self) -> None: ...
    def flush(self) -> None: ...
    def write_line(self, line: str) -> None:
        self.append(line)


class StuckBoard:
    """A strategy whose board cannot be switched off."""

    board, type = "b-1", SimpleNamespace(title="a board")

    def transition(self, status: str) -> None:
        raise LabStableError(f"still alive after {status}", failure="power_off_ineffective")


def test_a_board_that_cannot_be_switched_off_is_said_and_its_run_is_closed_in_the_store(tmp_path: Path) -> None:
    said = Lines()
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("boot", "t", "b-1", "1", plan={"media": ["sd"]}, provenance={})
        measured: Any = SimpleNamespace(pending=lambda _item: [])
        plugins = {"terminalreporter": said}
        config: Any = SimpleNamespace(
            stash=pytest.Stash(),
            option=SimpleNamespace(lab_leave_on=False),
            pluginmanager=SimpleNamespace(getplugin=plugins.get),
        )
        properties: dict[str, object] = {}
        measurer = CycleMeasurer(store, run, cycle_run=measured, items="media", board="a board")
        session = session_of(config, StuckBoard(), MeasurerKey(), lambda *_: measurer, properties.__setitem__)
        next(session)
        assert next(session, None) is None
        assert store.run(run.id).status == "completed"
    assert said[-1] == "error: still alive after off"
    assert properties["boardlab_run"] == run.id


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cycles", 0),
        ("cycles", 10**20),
        ("sleep", 0),
        ("sleep", 10**20),
        ("retries", -1),
        ("retries", 10**20),
        ("resume", 0),
        ("resume", 10**20 - 1),
        ("resume", -(10**30)),
    ],
)
def test_a_number_beyond_all_bounds_is_refused_with_its_bounds(option: str, value: int) -> None:
    options = {"lab_retries": 0, f"lab_{option}": value}
    with pytest.raises(ConfigurationError, match=rf"--lab-{option} -?\d+.*: a whole number from \d+ to \d+"):
        board._check_options(SimpleNamespace(option=SimpleNamespace(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("init", ["", "sh", "/bin/sh -x", "/bin/sh'; reset; '"])
def test_another_init_is_the_path_of_a_program(init: str) -> None:
    option = SimpleNamespace(lab_cycles=None, lab_retries=0, lab_init=init)
    with pytest.raises(ConfigurationError, match=r"--lab-init .*: the path of a program on the board, e\.g\. /bin/sh"):
        board._check_options(SimpleNamespace(option=option))  # type: ignore[arg-type]
    option.lab_init = "/bin/sh"
    board._check_options(SimpleNamespace(option=option))  # type: ignore[arg-type]


@pytest.fixture
def _sigterm() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, board.end_once)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_sigterm")
def test_a_second_sigterm_does_not_cut_short_how_a_session_ends() -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


@pytest.mark.usefixtures("_sigterm")
def test_after_ctrl_c_the_sigterm_of_a_killed_lab_run_does_not_either() -> None:
    board.pytest_keyboard_interrupt()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
