"""A card at the host that is written, and cut short: by kill -9 of the whole process, by the end of its writer, by a card that takes no more.

`python cardcut.py FOLDER BYTES` writes until so many bytes are told as written, says so, and waits for its end.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import Plan, WriteProgress, WriteTarget
from lab.provision.writers import blockdevice, sd_mux
from lab.provision.writers.sd_mux import CardWriter, Disk

PIECE = 64 * 1024
IMAGE, BOOT, BOOT_AT, SIZE = 20 * PIECE, 3 * PIECE + 100, 24 * PIECE, 32 * PIECE
AHEAD = 6 * PIECE  # what the writer may have taken beyond what it has told: its buffers, and the pipe
TARGET = WriteTarget("b1", "any", "sd")
TOTAL = IMAGE + BOOT
_AT = "written "
_FAR = 1 << 40


class CutCard:
    """A card in a folder, and what a release has for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.card = folder, folder / "card.img"
        self.data = {
            name: random.Random(name).randbytes(count) for name, count in (("sdk.wic", IMAGE), ("u-boot.img", BOOT))
        }
        if not self.card.exists():
            self.card.write_bytes(b"\xa5" * SIZE)
            for name, data in self.data.items():
                (folder / name).write_bytes(data)
        image = Image(source=str(folder / "sdk.wic"), sha256=self._digest("sdk.wic"), size=IMAGE)
        part = Part(
            name="u-boot.img",
            source=str(folder / "u-boot.img"),
            sha256=self._digest("u-boot.img"),
            to=PartPlace(offset=BOOT_AT),
        )
        self.content = Content(image, [part])
        self._clock_ns = 0
        self.writer = CardWriter("sd-mux", self._at_host, stall_s=float("inf"), now_ns=self._now_ns)

    def plan(self) -> Plan:
        """Of the whole."""
        return self.writer.plan(self.content, TARGET)

    def provision(self) -> None:
        """Write and read back."""
        plan = self.plan()
        with mock.patch.object(sd_mux, "PIECE_BYTES", PIECE):
            self.writer.write(plan, lambda _progress: None)
            assert self.writer.verify(plan).bytes == TOTAL

    def write_until(self, count: int, then: Callable[[], None]) -> None:
        """Write; `then` is called when so many bytes are written."""

        def report(progress: WriteProgress) -> None:
            if progress.done >= count:
                then()

        plan = self.plan()
        with mock.patch.object(sd_mux, "PIECE_BYTES", PIECE), mock.patch.object(blockdevice, "_PIPE_BYTES", 4096):
            self.writer.write(plan, report)

    def has_release(self) -> bool:
        """Whether both lie where they belong."""
        found = self.card.read_bytes()
        return found[:IMAGE] == self.data["sdk.wic"] and found[BOOT_AT : BOOT_AT + BOOT] == self.data["u-boot.img"]

    def elsewhere(self) -> str:
        """Digest of everything on the card that is not the target, and of what lies beside the card."""
        found = bytearray(self.card.read_bytes())
        assert len(found) == SIZE
        for at, count in ((0, IMAGE), (BOOT_AT, BOOT)):
            found[at : at + count] = bytes(count)
        beside = sorted(path.name for path in self.folder.iterdir() if path != self.card)
        return hashlib.sha256(found + " ".join(beside).encode()).hexdigest()

    def _now_ns(self) -> int:
        self._clock_ns += 10**9  # so that each progress is told
        return self._clock_ns

    def _digest(self, name: str) -> str:
        return hashlib.sha256(self.data[name]).hexdigest()

    @contextmanager
    def _at_host(self) -> Iterator[Disk]:
        yield Disk(str(self.card), SIZE, "card")


def kill_at(folder: Path, count: int) -> None:
    """kill -9 of a process that writes the card, when it has told so many bytes."""
    words = [sys.executable, "-P", __file__, str(folder), str(count)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line.startswith(_AT), line
        assert int(line.removeprefix(_AT)) >= count
        writers = _children(child.pid)
        assert len(writers) == 1
        child.send_signal(signal.SIGKILL)
        assert child.wait(60) == -signal.SIGKILL
        _gone(writers[0])


def kill_writer(card: CutCard, count: int) -> None:
    """kill -9 of the process that has the card open."""
    with _writers() as found:
        card.write_until(count, lambda: os.kill(found[-1].pid, signal.SIGKILL))


def full_at(card: CutCard, count: int) -> None:
    """A card that takes no more behind so many bytes: the kernel refuses them (setrlimit(2), RLIMIT_FSIZE)."""
    end = count if count < IMAGE else BOOT_AT + count - IMAGE
    with _writers(lambda block: resource.prlimit(block.pid, resource.RLIMIT_FSIZE, (end, end))):
        card.write_until(_FAR, lambda: None)


@contextmanager
def _writers(
    do: Callable[[blockdevice.BlockDevice], object] = lambda _block: None,
) -> Iterator[list[blockdevice.BlockDevice]]:
    found: list[blockdevice.BlockDevice] = []
    real = blockdevice.open_writer

    @contextmanager
    def open_writer(*arguments: object, **named: object) -> Iterator[blockdevice.BlockDevice]:
        with real(*arguments, **named) as block:  # type: ignore[arg-type]
            found.append(block)
            do(block)
            yield block

    with mock.patch.object(blockdevice, "open_writer", open_writer):
        yield found


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _gone(pid: int) -> None:
    """Wait until a process that is not ours has ended."""
    try:
        with os.fdopen(os.pidfd_open(pid)) as handle:
            assert select.select([handle], [], [], 60)[0]
    except ProcessLookupError:
        return


def _main(folder: str, count: str) -> None:
    card = CutCard(Path(folder))

    def told() -> None:
        os.write(1, f"{_AT}{count}\n".encode())
        signal.pause()

    card.write_until(int(count), told)
    raise AssertionError("it was not killed")


if __name__ == "__main__":
    _main(*sys.argv[1:])
