from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.virtual.process import Child

DEADLINE_S = 20.0

PARENT = """
import asyncio, sys
from pathlib import Path
from lab.virtual.process import Child

async def main():
    child = Child(["sleep", "600"], Path(sys.argv[1]))
    print(child.pid, flush=True)
    await child.ended.wait()

asyncio.run(main())
"""


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([child], [], [], DEADLINE_S)[0] == [child], "the child outlived its parent"
        finally:
            os.close(child)


def test_a_child_that_ends_by_itself_is_told_with_its_status(tmp_path: Path) -> None:
    async def run() -> int:
        ended = asyncio.get_running_loop().create_future()
        Child(["sh", "-c", "exit 3"], tmp_path / "log", ended_hook=ended.set_result)
        return int(await asyncio.wait_for(ended, DEADLINE_S))

    assert asyncio.run(run()) == 3


def test_a_child_that_we_kill_is_reaped_and_not_told(tmp_path: Path) -> None:
    told: list[int] = []

    async def run() -> None:
        child = Child(["sleep", "600"], tmp_path / "log", ended_hook=told.append)
        await asyncio.wait_for(child.kill(), DEADLINE_S)
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)
        await child.kill()  # once more does nothing

    asyncio.run(run())
    assert told == []


def test_a_child_killed_by_somebody_else_is_told_with_the_signal(tmp_path: Path) -> None:
    async def run() -> int:
        ended = asyncio.get_running_loop().create_future()
        child = Child(["sleep", "600"], tmp_path / "log", ended_hook=ended.set_result)
        os.kill(child.pid, signal.SIGKILL)
        return int(await asyncio.wait_for(ended, DEADLINE_S))

    assert asyncio.run(run()) == -signal.SIGKILL


def test_what_a_child_says_goes_to_its_log_behind_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")

    async def run() -> None:
        child = Child(["sh", "-c", "echo out; echo $WORD >&2"], tmp_path / "log", env={"WORD": "err"})
        await asyncio.wait_for(child.ended.wait(), DEADLINE_S)

    asyncio.run(run())
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(ConfigurationError, match=r"no-such-program"):
            Child(["no-such-program"], tmp_path / "log")

    asyncio.run(run())
