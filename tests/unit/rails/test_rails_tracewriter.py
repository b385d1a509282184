"""The process that keeps what the sampler hands on. Each test has an interpreter of its own, which may fork."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.facts import missing_facts

DEADLINE_S = 60
START = """
import os, signal, sys
from pathlib import Path
from lab.errors import LabStableError
from lab.rails.trace import TraceWriter

path = Path(sys.argv[1])

def keep(data):
    with path.open("ab") as file:
        file.write(data)
"""
ALL = """
with TraceWriter(keep) as writer:
    for number in range(5000):
        writer.put(b"%07d " % number)
assert len(path.read_bytes()) == 40000
"""
BUSY_DISK = """
gate, release = os.pipe()

def keep_when_released(data):
    os.read(gate, 1)
    keep(data)

with TraceWriter(keep_when_released) as writer:
    for number in range(5000):
        writer.put(b"%07d " % number)
    os.write(release, bytes(5000))
"""
KILLED = """
with TraceWriter(keep) as writer:
    for number in range(5000):
        writer.put(b"%07d " % number)
    os.kill(os.getpid(), signal.SIGKILL)
"""
FULL_DISK = """
def fail(data):
    raise LabStableError("the disk is full")

try:
    with TraceWriter(fail) as writer:
        while True:
            writer.put(b"a sample")
except LabStableError as error:
    print(error, error.failure)
"""
FULL_AT_LAST = FULL_DISK.replace("while True:", "if True:")
UNEXPECTED = FULL_DISK.replace('LabStableError("the disk is full")', "SystemExit")


def run(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START + script, path]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.parametrize("script", [ALL, BUSY_DISK])
def test_everything_is_kept_in_order_and_who_hands_it_on_does_not_wait_for_the_disk(
    script: str, tmp_path: Path
) -> None:
    done = run(script, tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    assert [int(word) for word in (tmp_path / "kept").read_bytes().split()] == list(range(5000))


def test_what_a_killed_process_had_handed_on_is_kept(tmp_path: Path) -> None:
    killed = run(KILLED, tmp_path / "kept")  # the other process has ended too: it held the same stdout
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "kept").stat().st_size == 40000, "what was in the pipe is lost"


@pytest.mark.parametrize("script", [FULL_DISK, FULL_AT_LAST])
def test_what_cannot_be_kept_is_an_error_of_who_hands_it_on(script: str, tmp_path: Path) -> None:
    assert run(script, tmp_path / "kept").stdout == "the disk is full disk\n"


def test_a_process_that_ends_for_no_known_reason_is_an_error_too(tmp_path: Path) -> None:
    assert not missing_facts(run(UNEXPECTED, tmp_path / "kept").stdout, "keeps the samples", "disk")
