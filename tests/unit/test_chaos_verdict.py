"""Checks after the chaos test: violations are found, and the rest passes."""

from __future__ import annotations

import datetime as dt
import fcntl
import socket
from pathlib import Path

import pytest
from attrs import evolve
from support.chaos_verdict import (
    Judged,
    Kind,
    Story,
    Timed,
    boot_times,
    judge,
    left_behind,
    miscounts,
    uncatalogued,
    untrue,
)
from support.facts import missing_facts

from lab.metrics import Moment
from lab.results import Attempt, Run
from lab.results.records import SampleRecord
from lab.virtual.truth_log import Truth

S = 1_000_000_000
AT = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
START, PROMPT = b"Starting kernel ...", b"am62xx-evm login: "
TIMED = Timed(1, "sim-1", 3, 2.8, 0.001, frozenset({"simulated"}), 100 * S, 102_800_000_000)


def story(*said: tuple[float, bytes], killed_s: float | None = None) -> Story:
    """A UART that said these things, each ending at so many seconds."""
    return Story(
        Truth(115200, [(round(at_s * S), data) for at_s, data in said], 0, []),
        None if killed_s is None else round(killed_s * S),
    )


BOOT = story((100.0, START), (102.8, PROMPT))


@pytest.mark.parametrize(
    ("changed", "kind", "error_s"),
    [
        ({}, "inside", 0.0),
        ({"value_s": 2.8009}, "inside", 0.0009),
        ({"value_s": 2.802}, "nearly", 0.002),
        ({"value_s": 2.812}, "outside", 0.012),
        ({"value_s": 2.802, "flags": frozenset({"clock_disagrees"})}, "flagged", 0.002),
        ({"value_s": 2.812, "flags": frozenset({"simulated", "medium_unverified"})}, "outside", 0.012),
        ({"start_ns": 110 * S}, "outside", None),
        ({"start_ns": 104 * S, "about_s": 3.0}, "inside", 0.0),
    ],
)
def test_a_boot_time_is_held_against_the_boot_that_its_stamps_name(
    changed: dict[str, object], kind: str, error_s: float | None
) -> None:
    before = story((50.0, START), (53.0, PROMPT))
    judged = judge(evolve(TIMED, **changed), [before, BOOT])
    assert judged.kind == kind
    assert judged.error_s == (None if error_s is None else pytest.approx(error_s))


def test_few_numbers_may_be_off_by_what_a_busy_host_costs_and_none_by_more() -> None:
    def so_many(kind: Kind, count: int) -> list[Judged]:
        return [Judged(TIMED, kind, 0.002)] * count

    assert untrue(so_many("inside", 10) + so_many("nearly", 1)) == []
    assert untrue(so_many("inside", 98) + so_many("nearly", 5) + so_many("flagged", 5)) == []
    assert len(untrue(so_many("inside", 10) + so_many("nearly", 2))) == 2
    assert len(untrue(so_many("inside", 200) + so_many("outside", 1) + so_many("nearly", 1))) == 1


def test_the_prompt_of_a_later_boot_is_not_the_one_that_was_measured() -> None:
    twice = story((100.0, START), (101.0, START), (102.8, PROMPT))
    assert judge(TIMED, [twice]).kind == "outside"
    assert judge(evolve(TIMED, value_s=1.8, start_ns=101 * S), [twice]).kind == "inside"


def test_a_prompt_that_a_killed_bench_had_not_logged_is_untold_and_any_other_that_is_not_there_is_wrong() -> None:
    assert judge(TIMED, [story((100.0, START), killed_s=102.9)]).kind == "untold"
    assert judge(TIMED, [story((100.0, START), killed_s=110.0)]).kind == "outside"
    assert judge(TIMED, [story((100.0, START))]).kind == "outside"


RUN = Run(
    1, "boot", "am62xx_sk", "sim-1", "11.01", "completed", AT, AT, plan={"cycles": 2, "media": ["sd"]}, provenance={}
)


def attempt(cycle: int, number: int = 1, *, ok: bool = True) -> Attempt:
    sample = SampleRecord("boot.time", {"medium": "sd"}, 2.8, 0.001, frozenset({"simulated"}))
    moments = tuple(
        Moment(name, t_ns, 0, 0) for name, t_ns in (("starting_kernel", 100), ("login", 200), ("starting_kernel", 300))
    )
    return Attempt(
        cycle=cycle,
        number=number,
        params={"medium": "sd"},
        outcome="ok" if ok else "silent",
        fault=None if ok else "board",
        transient=None if ok else True,
        message="",
        started_at=AT,
        duration_s=1.0,
        samples=(sample,) if ok else (),
        moments=moments if ok else (),
        id=cycle,
        run_id=1,
    )


def test_a_run_with_one_sample_a_cycle_is_well() -> None:
    assert miscounts(RUN, [attempt(1), attempt(2, ok=False), attempt(2, 2)]) == []


@pytest.mark.parametrize(
    ("run", "attempts", "says"),
    [
        (RUN, [attempt(1)], "sd, cycle 2 has 0 samples"),
        (RUN, [attempt(1), attempt(2), attempt(2, 2)], "sd, cycle 2 has 2 samples"),
        (RUN, [attempt(1), attempt(2), attempt(3)], "sd, cycle 3 has 1 samples"),
        (RUN, [attempt(1), attempt(2, 2)], "sd, cycle 2 has attempts [2]"),
        (evolve(RUN, status="running"), [attempt(1), attempt(2)], "is running"),
    ],
)
def test_a_missing_a_second_and_an_uncounted_attempt_are_found(run: Run, attempts: list[Attempt], says: str) -> None:
    (wrong,) = miscounts(run, attempts)
    assert says in wrong


def test_a_boot_time_comes_with_the_first_of_its_stamps() -> None:
    (timed,) = boot_times(RUN, [attempt(1), attempt(2, ok=False)])
    assert (timed.cycle, timed.start_ns, timed.prompt_ns) == (1, 100, 200)


def test_a_class_that_the_catalogue_does_not_have_is_named() -> None:
    (line,) = uncatalogued({"ok": 3, "silent": 1, "sulking": 2})
    assert not missing_facts(line, "2 attempts", "'sulking'", "lab.failures")


def test_what_is_left_behind_is_found(tmp_path: Path) -> None:
    for name in ("run/recordings/main0.log", "run/console.lock", "results/results.db", "results/artifacts/ab/cd"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert left_behind(tmp_path, []) == []
    (tmp_path / "results" / "artifacts" / "ab" / ".new-x1").touch()
    (tmp_path / "results" / "results.db-wal").touch()
    with (
        (tmp_path / "run" / "console.lock").open() as lock,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket() as tcp,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        unix.bind(str(tmp_path / "run" / "console.sock"))
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        port = tcp.getsockname()[1]
        wrong = left_behind(tmp_path, [port])
    assert [line.partition(" ")[0] for line in wrong[:3]] == [
        "results/artifacts/ab/.new-x1",
        "results/results.db-wal",
        "run/console.sock",
    ]
    assert not missing_facts(wrong[3], "run/console.lock", "locked")
    assert not missing_facts(wrong[4], "socket", "bound")
    (listener,) = wrong[5:]
    assert not missing_facts(listener, "listens", f"port {port}")
