"""Whether a process that holds something lives, on this host or another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.host import process


def test_a_holder_is_gone_when_its_process_is_or_its_host_was_booted_again(tmp_path: Path) -> None:
    mine = process.identity()
    assert process.has_died(mine) is False
    with subprocess.Popen(["sleep", "60"]) as child:
        host, boot, _, _ = mine.rsplit("/", 3)
        start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        its = f"{host}/{boot}/{child.pid}/{start}"
        assert process.has_died(its) is False
        child.kill()
    assert process.has_died(its) is True
    assert process.has_died(mine.replace(boot, "another-boot")) is True
    assert process.has_died(f"{host}/{boot}/{os.getpid()}/1") is True, "the number was given to another process"
    assert process.has_died(f"elsewhere/{boot}/1/1") is None


def test_a_holder_that_proc_hides_is_not_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, boot, _, _ = process.identity().rsplit("/", 3)
    hidden = tmp_path / "proc"
    (hidden / "sys/kernel/random").mkdir(parents=True)
    (hidden / "sys/kernel/random/boot_id").write_text(boot)
    with subprocess.Popen(["sleep", "60"]) as child:
        assert process.has_died(f"{host}/{boot}/{child.pid}/1", hidden) is None
        assert process.ask_to_end(f"{host}/{boot}/{child.pid}/1", hidden) is False
        child.kill()
    assert process.has_died(f"{host}/{boot}/{child.pid}/1", hidden) is True
    assert process.has_died(f"{host}/another-boot/{os.getpid()}/1", hidden) is True

    def of_another_user(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process.os, "kill", of_another_user)
    assert process.has_died(f"{host}/{boot}/4000000/1", hidden) is None


# Prints how many arenas eight threads that live side by side took memory from, malloc_info(3).
ARENAS = """
import ctypes, sys, threading
from lab.host import process
exec(sys.argv[1])
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.malloc.restype = ctypes.c_void_p
all_there = threading.Barrier(8)
def take():
    libc.malloc(1000)
    all_there.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(open(sys.argv[2]).read().count("<heap nr="))
"""


def test_threads_share_two_arenas(tmp_path: Path) -> None:
    def arenas(first: str) -> int:
        words = [sys.executable, "-c", ARENAS, first, tmp_path / "info.xml"]
        return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    assert arenas("pass") > 2
    assert arenas("process.share_memory_of_threads()") == 2
