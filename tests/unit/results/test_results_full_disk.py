"""A full disk, and the index of SQLite's log, which is written through a memory map: an error, and no SIGBUS.

Where this user may mount, the disk is an ext4 with blocks of 1 KiB, on which the index had holes; the small file systems of
a mount namespace vanish with it. Elsewhere a file of the same kind stands for it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import LabStableError
from lab.results import database, open_store

FREE_KIB = (0, 4, 8, 9, 10, 11, 12, 16, 20, 24, 28, 32, 36, 40, 56, 64, 68, 72, 80)
FULL_DISKS = r"""
set -eu
truncate -s 4M image
mkfs.ext4 -q -F -b 1024 -O ^has_journal -m 0 image
mount -o loop image disk
cp made.db disk/a.db
dd if=/dev/zero of=disk/free bs=1k count=$1 2>/dev/null
dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null || true
rm disk/free
"""
PROGRAM = """
import os, subprocess, sys
from lab.errors import LabStableError
from lab.results import schema as migrating, open_store

os.mkdir("disk")
for free in sys.argv[2:]:
    subprocess.run(["bash", "-c", sys.argv[1], "bash", free], check=True)
    if (child := os.fork()) == 0:
        try:
            with open_store("disk/a.db", pause=lambda _s: None) as store:
                for _ in range(20):
                    store.begin_run("boot", "x", "x", "x", plan={}, provenance={})
        except LabStableError as error:
            print(str(error).split(":")[0], flush=True)
        os._exit(0)
    print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    subprocess.run(["umount", "disk"], check=True)
"""


def may_mount() -> bool:
    tried = "losetup -f > /dev/null && command -v mkfs.ext4 > /dev/null"
    return subprocess.run(["unshare", "--mount", "sh", "-c", tried], check=False, capture_output=True).returncode == 0


def test_a_program_on_a_full_disk_ends_with_a_message_however_full_it_is(tmp_path: Path) -> None:
    if not may_mount():
        holes_are_filled(tmp_path)
        return
    open_store(str(tmp_path / "made.db")).close()
    command = ["unshare", "--mount", sys.executable, "-c", PROGRAM, FULL_DISKS, *map(str, FREE_KIB)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    ended = [line for line in done.stdout.splitlines() if "status" in line]
    assert ended == ["status 0"] * len(FREE_KIB), f"{-signal.SIGBUS} is SIGBUS"
    assert done.stdout.count("results in") > 5, "most of these disks are too full to write to"


def holes_are_filled(folder: Path) -> None:
    """An index with holes, as a file system of small blocks leaves it, has none afterwards."""
    path = folder / "a.db"
    with open_store(str(path)):
        index = path.with_name("a.db-shm")
        assert index.stat().st_blocks * 512 >= database.REGION_BYTES


def test_every_block_of_the_index_has_its_place_while_the_store_is_open(tmp_path: Path) -> None:
    holes_are_filled(tmp_path)


def test_no_room_for_the_index_is_said_before_sqlite_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    open_store(str(path)).close()
    monkeypatch.setattr(database, "LEAST_FREE_BYTES", 2**60)  # more than any disk has
    with pytest.raises(LabStableError, match=r"SQLite.*free space"):
        open_store(str(path))
