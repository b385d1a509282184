"""A low-power run of partial I/O on a simulated board in virtual time, with rails that are off, and with one that is not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.facts import missing_facts
from support.napping import Napper, napper
from support.playedrails import PlayedRails, PlayedSampler
from support.simtarget import SimClock

from lab.benchmarks.boot.crosscheck import with_digest
from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.metrics import Flag
from lab.rails import AdcRange
from lab.results import Attempt, Store, open_store
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress

BOARD, MODE = "am62xx_lp_sk", "partial_io"
PLAN = {"cycles": 1, "modes": [MODE], "wake": "can", "sleep_s": 1, "medium": "sd"}


@pytest.fixture
def board() -> Iterator[Napper]:
    with napper(BOARD) as board:
        board.strategy.rails = PlayedRails(board.strategy.target, None)
        yield board


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def measured(board: Napper, store: Store, retries: int = 0) -> list[Attempt]:
    """The attempts of a run of one cycle."""
    release = board.strategy.low_power.release
    run = store.begin_run(KIND, BOARD, "sim-1", release, plan=PLAN, provenance={})
    clock = SimClock(board.lab)
    low_power_run = LowPowerRun(
        store, run, board.strategy, Progress(lambda _line: None, clock, 1), clock, board.strategy.sleep, retries
    )
    with contextlib.suppress(BoardlabError):
        low_power_run.measure(MODE)
    return list(store.attempts(run.id))


def test_the_voltage_of_the_rails_is_stored_beside_the_boot(board: Napper, store: Store) -> None:
    (attempt,) = measured(board, store)
    assert attempt.outcome == "ok", attempt.message
    prompt, voltage = attempt.samples
    assert (prompt.metric, voltage.metric) == ("lpm.partial_io.resume_wake_to_prompt", "lpm.partial_io.rail_voltage")
    assert voltage.value <= voltage.uncertainty < 0.1
    log = store.artifacts.read(attempt.artifact("console-log").sha256)  # type: ignore[union-attr]
    assert b"Entering Partial-IO" in log[voltage.log_start : voltage.log_end]
    assert log[voltage.log_start : voltage.log_end].count(b"\n") == 1
    assert attempt.artifact("power-trace") is not None
    assert prompt.flags == {Flag.SIMULATED}
    assert attempt.details["cross_check"]["init"] == "systemd", "the board was asked about its boot"


def test_a_boot_that_the_board_contradicts_gives_no_number_and_one_that_it_does_not_say_has_a_flag(
    board: Napper, store: Store
) -> None:
    asked = board.strategy.asked

    def started_later(question: str, is_whole: Callable[[Sequence[str]], bool]) -> tuple[int, list[str]]:
        asked_ns, lines = asked(question, is_whole)
        at_s, _, idle = lines[0].partition(" ")
        late = lines if ":" in lines[0] else with_digest([f"{float(at_s) - 7:.2f} {idle}", *lines[1:-1]])
        return asked_ns, late

    board.strategy.asked = started_later
    (attempt,) = measured(board, store)
    assert (attempt.outcome, list(attempt.samples)) == ("prompt_not_real", [])
    board.strategy.asked = lambda *_: None
    (attempt,) = measured(board, store)
    assert attempt.samples[0].flags == {Flag.NOT_CROSS_CHECKED, Flag.SIMULATED}


def test_a_rail_that_stays_up_is_a_failed_attempt_without_a_number_and_the_next_one_begins_with_power(
    board: Napper, store: Store
) -> None:
    load = board.strategy.rails.bench.rails.load
    load.levels = {**load.levels, MODE: {"vdd_core": 0.01}}
    attempts = measured(board, store, retries=1)
    assert [(each.outcome, each.fault, each.transient, list(each.samples)) for each in attempts] == [
        ("rails_up", "board", True, [])
    ] * 2
    assert "vdd_core 0.7" in attempts[0].message
    assert board.lab.board.cycle == 2, "it was power-cycled"


def test_a_board_that_comes_back_by_itself_is_no_sleeping_board(board: Napper, store: Store) -> None:
    rails = board.strategy.rails
    played = rails.sampling

    @contextlib.contextmanager
    def woken(trace: Path, wanted: AdcRange) -> Iterator[PlayedSampler]:
        board.lab.board.receive("can", b"\x01", board.lab.now_ns)
        with played(trace, wanted) as sampler:
            yield sampler

    rails.sampling = woken
    (attempt,) = measured(board, store)
    assert (attempt.outcome, attempt.fault, list(attempt.samples)) == ("early_wake", "board", [])


def test_somebody_else_who_reads_the_console_is_to_blame_and_not_the_board(board: Napper, store: Store) -> None:
    """`explaining_shared_port` of a low-power run: it asks the console who else reads, whatever failed in its cycle."""

    def failing(*_arguments: object) -> None:
        raise BoardTransientError("it did not go to sleep", failure="did_not_suspend")

    def blame_sharing(error: BoardTransientError) -> LabTransientError:
        return LabTransientError(f"pid 7 reads it too: {error}", failure="console_shared")

    board.strategy.rails.sampling = failing
    board.strategy.console.blame_sharing = blame_sharing
    (attempt,) = measured(board, store)
    assert (attempt.outcome, attempt.fault) == ("console_shared", "lab")
    assert not missing_facts(attempt.message, "pid 7", "not go to sleep")
