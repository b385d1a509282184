"""How a session's run of cycles ends, and which options it refuses."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.facts import missing_facts

from lab.errors import BoardlabError, ConfigurationError, LabStableError, LabTransientError
from lab.farm.runner import BROKEN, BUSY
from lab.jobs.records import JOB_VARIABLE
from lab.pytest_plugin import board
from lab.pytest_plugin.run_session import CycleRunSession, CycleSessionKey, session_of
from lab.pytest_plugin.runs import STRATEGY_KEY
from lab.results import Run, Store, open_store


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


class SignalledBoard:
    """A strategy whose session gets signals while its board is being switched off."""

    board, type = "b-1", SimpleNamespace(title="a board")

    def __init__(self, *numbers: signal.Signals) -> None:
        self.numbers = numbers
        self.off = False

    def transition(self, _status: str) -> None:
        for number in self.numbers:
            os.kill(os.getpid(), number)
        self.off = True


def engine(store: Store, run: Run, pending: list[int], measured: int = 1, of: str = "sd") -> Any:
    """A run of which these cycles are left, and so many are measured of a section."""
    board = SimpleNamespace(type=SimpleNamespace(title="a board"))
    return SimpleNamespace(
        store=store,
        run=run,
        board=board,
        forget_attempts=lambda: None,
        items=["sd"],
        pending=lambda _item: pending,
        ITEM="section",
        good_attempts=lambda section="": [object()] * (measured if section in {"", of} else 0),
    )


@pytest.mark.parametrize(
    ("measured", "of", "status"),
    [
        (0, "", "failed"),
        (1, "another", "completed"),
        pytest.param(1, "sd", "interrupted", id="skipped behind a cycle"),
    ],
)
def test_a_run_of_which_everything_was_skipped_measured_nothing(
    tmp_path: Path, measured: int, of: str, status: str
) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("sections", "t", "b-1", "1", plan={"sections": ["sd"]}, provenance={})
        session = CycleRunSession(engine(store, run, pending=[1], measured=measured, of=of), skipped={"sd"})
        assert session.finish() == status


def begun(store: Store, strategy: Any, said: Lines, properties: dict[str, object]) -> tuple[int, Iterator[Any]]:
    """A run of whose cycles none is left, and its session, which has begun."""
    run = store.begin_run("boot", "t", "b-1", "1", plan={"media": ["sd"]}, provenance={})
    plugins = {"terminalreporter": said}
    stash = pytest.Stash()
    stash[STRATEGY_KEY] = strategy
    config: Any = SimpleNamespace(
        stash=stash,
        option=SimpleNamespace(lab_leave_on=False, lab_hold=False),
        pluginmanager=SimpleNamespace(getplugin=plugins.get),
    )
    made = CycleRunSession(engine(store, run, pending=[]))
    session = session_of(config, CycleSessionKey(), lambda _config: made, properties.__setitem__)
    next(session)
    return run.id, session


def test_a_board_that_cannot_be_switched_off_is_said_and_its_run_is_closed_in_the_store(tmp_path: Path) -> None:
    said, properties = Lines(), dict[str, object]()
    with open_store(str(tmp_path / "results.db")) as store:
        run, session = begun(store, StuckBoard(), said, properties)
        assert next(session, None) is None
        assert store.run(run).status == "completed"
    assert not missing_facts(said[-1], "error: ", "alive after off")
    assert properties["boardlab_run"] == run


@pytest.mark.usefixtures("_sigterm")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_session_that_ends_leaves_no_board_on_and_no_run_open(
    tmp_path: Path, number: signal.Signals
) -> None:
    strategy, before = SignalledBoard(number), signal.getsignal(number)
    with open_store(str(tmp_path / "results.db")) as store:
        run, session = begun(store, strategy, Lines(), {})
        assert next(session, None) is None
        assert (strategy.off, store.run(run).status) == (True, "completed")
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_ends_a_session_at_once_and_its_run_is_closed(tmp_path: Path) -> None:
    strategy, said = SignalledBoard(signal.SIGINT, signal.SIGINT), Lines()
    with open_store(str(tmp_path / "results.db")) as store:
        run, session = begun(store, strategy, said, {})
        with pytest.raises(KeyboardInterrupt):
            next(session)
        assert (strategy.off, store.run(run).status) == (False, "completed")
    assert "Ctrl-C again" in said[-1]


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
    with pytest.raises(ConfigurationError, match=f"--lab-{option} .*\\d+ to \\d+"):
        board._check_options(SimpleNamespace(option=SimpleNamespace(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("init", ["", "sh", "/bin/sh -x", "/bin/sh'; reset; '"])
def test_another_init_is_the_path_of_a_program(init: str) -> None:
    option = SimpleNamespace(lab_cycles=None, lab_retries=0, lab_init=init)
    with pytest.raises(ConfigurationError, match=r"--lab-init .*/bin/sh"):
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


class Away:
    """A strategy whose lab is away at its first looks."""

    def __init__(self, *errors: BoardlabError) -> None:
        self.errors = list(errors)

    def check_lab(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


BOOTING = LabTransientError("on lab-2: no such port", failure="port_missing")


@pytest.mark.parametrize("error", [BOOTING, LabStableError("/dev/ttyUSB0: no such port", failure="port_missing")])
def test_a_lab_run_waits_for_a_host_that_boots_before_it_measures(error: BoardlabError) -> None:
    said, slept = list[str](), list[float]()
    board.check_lab(Away(error, error, error), 300.0, said.append, slept.append)
    assert slept == [board.LAB_LOOK_S] * 3
    assert said == [f"waits: {error}"]


def test_a_host_that_stays_away_ends_the_wait_and_a_person_does_not_wait_at_all() -> None:
    slept = list[float]()
    with pytest.raises(LabTransientError):
        board.check_lab(Away(*[BOOTING] * 999), 300.0, lambda _line: None, slept.append)
    assert sum(slept) == 300.0
    with pytest.raises(LabTransientError):
        board.check_lab(Away(BOOTING), 0.0, lambda _line: None, slept.append)
    with pytest.raises(LabStableError):
        board.check_lab(Away(LabStableError("stuck", failure="port_stuck")), 300.0, lambda _line: None, slept.append)
    assert sum(slept) == 300.0


@pytest.mark.parametrize(
    ("away", "code"),
    [
        (BOOTING, BUSY),
        (LabTransientError("the server does not answer", failure="results"), BUSY),
        (LabStableError("the disk is full", failure="results"), BROKEN),
    ],
    ids=["host", "results", "disk"],
)
def test_a_run_whose_host_or_results_stay_away_goes_on_later_and_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: BoardlabError, code: int
) -> None:
    monkeypatch.setenv(JOB_VARIABLE, "j12")
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("boot", "t", "b-1", "1", plan={"media": ["sd"]}, provenance={})
        session = CycleRunSession(engine(store, run, pending=[1]))
        with pytest.raises(pytest.exit.Exception) as ended, session.failing():
            raise away
        assert ended.value.returncode == code
        assert session.finish() == "interrupted"
        monkeypatch.delenv(JOB_VARIABLE)
        with pytest.raises(pytest.fail.Exception), session.failing():
            raise away
        assert session.finish() == "failed"
