"""Programs of one host take turns: one at a time, and not sooner than a gap after each other."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.host import locks
from lab.host.locks import GAP_VARIABLE, keep_gap, power_on_gap_s, turn

HOLDS = """
import sys
from lab.host.locks import turn
with turn("hub 3", "b1, process 7 of lena", print):
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))


class Time:
    """A clock that only a sleep moves."""

    def __init__(self) -> None:
        self.ns = 10**12
        self.slept: list[float] = []

    def now_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ns += round(seconds * 1e9)


def test_power_ons_of_a_switch_keep_their_gap_and_other_switches_do_not_wait() -> None:
    time = Time()
    for _ in range(3):
        keep_gap("pdu 1", 0.5, now_ns=time.now_ns, sleep=time.sleep)
    assert time.slept == [0.5, 0.5]
    keep_gap("pdu 2", 0.5, now_ns=time.now_ns, sleep=time.sleep)
    assert time.slept == [0.5, 0.5]
    time.ns += 400_000_000
    keep_gap("pdu 1", 0.5, now_ns=time.now_ns, sleep=time.sleep)
    assert time.slept[2:] == pytest.approx([0.1])


def test_what_was_noted_before_a_boot_of_the_host_makes_nobody_wait() -> None:
    time = Time()
    keep_gap("pdu 1", 0.5, now_ns=time.now_ns, sleep=time.sleep)
    time.ns = 1_000  # the clock begins anew
    keep_gap("pdu 1", 0.5, now_ns=time.now_ns, sleep=time.sleep)
    assert time.slept == []


def test_a_program_that_is_stopped_before_its_power_on_keeps_no_other_board_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_STOPPED_S", 0.1)
    time = Time()
    keep_gap("pdu 1", 0.1, now_ns=time.now_ns, sleep=time.sleep)
    (file,) = (tmp_path / "run" / "turns").iterdir()
    with file.open() as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        time.ns += 200_000_000
        keep_gap("pdu 1", 0.1, now_ns=time.now_ns, sleep=time.sleep)
        assert time.slept == []
    assert file.read_text() == str(time.ns)


def test_who_waits_is_told_for_whom_and_gets_the_turn_when_that_process_is_killed() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-c", HOLDS]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        said: list[str] = []

        def told(holder: str) -> None:
            said.append(holder)
            other.kill()

        with turn("hub 4", "b3", said.append):
            assert said == [], "another hub"
        with turn("hub 3", "b2", told):
            assert said == ["b1, process 7 of lena"]


def test_a_gap_that_is_none_is_refused() -> None:
    assert power_on_gap_s({}) == 0
    assert power_on_gap_s({GAP_VARIABLE: "0.25"}) == 0.25
    for wrong in ("soon", "-1", "61", "nan"):
        with pytest.raises(ConfigurationError, match=GAP_VARIABLE):
            power_on_gap_s({GAP_VARIABLE: wrong})


def test_a_note_is_rewritten_whole() -> None:
    with turn("x", "a long name of somebody", print):
        pass
    with turn("x", "b", print):
        (note,) = (Path(os.environ["BOARDLAB_RUNTIME"]) / "turns").iterdir()
        assert note.read_text() == "b"
