"""From U-Boot over the network, on a U-Boot that is played: memory, an NVMe and a flash that forgets what it is told to."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.provision.failures import ImageTooLargeError, MediaVerifyFailedError, MediaWriteFailedError, TftpTimeoutError
from lab.provision.release import Content, ExtCsd, Image, Part, Place
from lab.provision.way import Progress, Target
from lab.provision.ways import ubootmedia
from lab.provision.ways.uboot import Network, Tftp, UbootWay

TARGET = Target("b1", "any", "emmc")
BASE = 0x40000000
BDINFO = [f"-> start    = {BASE:#018x}", f"-> size     = {64 << 20:#018x}", "irq_sp      = 0x0000000043f00000"]
Spoil = Callable[[str, list[str]], list[str]]


class PlayedUBoot:
    """A prompt with memory, an NVMe of `size` bytes and a CFI flash; files come from `folder`."""

    def __init__(self, folder: Path, size: int = 40 << 20, *, with_hash: bool = True) -> None:
        self.folder, self.memory, self.disk = folder, bytearray(64 << 20), bytearray(size)
        self.flash, self.with_hash = bytearray(b"\xff" * (4 << 20)), with_hash
        self.typed: list[str] = []
        self.forgets: set[int] = set()  # blocks that the disk says it wrote
        self.spoil: Spoil = lambda _command, lines: lines

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's UBootDriver."""
        del timeout
        self.typed.append(cmd)
        lines = self.spoil(cmd, self._answer(cmd.split()))
        return lines, [], 0

    def _answer(self, words: list[str]) -> list[str]:  # noqa: PLR0911, PLR0912 - one case a command
        match words:
            case ["help", "hash"]:
                return ["hash - compute"] if self.with_hash else ["Unknown command 'hash' - try 'help'"]
            case ["bdinfo"]:
                return BDINFO
            case ["dhcp"]:
                return ["DHCP client bound to address 10.0.2.15 (1 ms)"]
            case ["tftpboot", address, name]:
                data = (self.folder / name).read_bytes()
                self._store(int(address, 16), data)
                return [f"Bytes transferred = {len(data)} ({len(data):x} hex)"]
            case ["crc32", address, count]:
                return [
                    f"crc32 for x ... y ==> {zlib.crc32(self._bytes(address, count)):08x}".replace(
                        "x ... y", "0 ... 1"
                    )
                ]
            case ["hash", "sha256", address, count, "&&", "echo"]:
                return [f"sha256 for 0 ... 1 ==> {hashlib.sha256(self._bytes(address, count)).hexdigest()}"]
            case ["nvme", "info"]:
                return [f"Capacity: 1 MB = 0.0 GB ({len(self.disk) // 512} x 512)"]
            case ["nvme", "device", _]:
                return ["... is now current device"]
            case ["nvme", "write" | "read" as verb, address, block, count]:
                return self._moved(verb, int(address, 16) - BASE, int(block, 16), int(count, 16))
            case ["flinfo"]:
                return ["Bank # 1: CFI conformant flash (32 x 16)"]
            case ["protect", "off", *_]:
                return ["Un-Protected 1 sectors"]
            case ["erase", begin, length]:
                self._flash(int(begin, 16), b"\xff" * int(length, 16), erase=True)
                return ["Erased 1 sectors"]
            case ["cp.b", source, to, count]:
                return self._copied(int(source, 16), int(to, 16), int(count, 16))
        return []

    def _bytes(self, address: str, count: str) -> bytes:
        begin = int(address, 16) - BASE
        return bytes(self.memory[begin : begin + int(count, 16)])

    def _store(self, address: int, data: bytes) -> None:
        self.memory[address - BASE : address - BASE + len(data)] = data

    def _moved(self, verb: str, at: int, block: int, count: int) -> list[str]:
        begin, length = block * 512, count * 512
        if begin + length > len(self.disk):
            return [f"nvme {verb}: device 0 block # {block}, count {count} ... 0 blocks written: ERROR"]
        if verb == "read":
            self.memory[at : at + length] = self.disk[begin : begin + length]
        elif block not in self.forgets:
            self.disk[begin : begin + length] = self.memory[at : at + length]
        done = "written" if verb == "write" else "read"
        return [f"nvme {verb}: device 0 block # {block}, count {count} ... {count} blocks {done}: OK"]

    def _copied(self, source: int, to: int, count: int) -> list[str]:
        if to >= BASE:
            self._store(to, bytes(self.flash[source - 0x4000000 : source - 0x4000000 + count]))
            return []
        self._flash(to, bytes(self.memory[source - BASE : source - BASE + count]), erase=False)
        return ["Copy to Flash... done"]

    def _flash(self, at: int, data: bytes, *, erase: bool) -> None:
        begin = at - 0x4000000
        old = self.flash[begin : begin + len(data)]
        self.flash[begin : begin + len(data)] = data if erase else bytes(a & b for a, b in zip(old, data, strict=True))


def way(board: PlayedUBoot, medium: str = "nvme 0") -> UbootWay:
    found = ubootmedia.parse(medium, erase_bytes=256 * 1024)
    return UbootWay("uboot-tftp", found, Tftp(board.folder, Network("10.0.2.2", 6969)), lambda: board, lambda: None)


def image(folder: Path, data: bytes) -> Content:
    path = folder / "sdk.wic"
    path.write_bytes(data)
    return Content(Image(source=str(path), sha256=hashlib.sha256(data).hexdigest()))


def part(folder: Path, name: str, data: bytes, place: Place) -> Part:
    (folder / name).write_bytes(data)
    return Part(source=str(folder / name), sha256=hashlib.sha256(data).hexdigest(), name=name, to=place)


def content(count: int) -> bytes:
    return bytes(range(251)) * (count // 251 + 1)


@pytest.mark.parametrize("with_hash", [True, False])
def test_an_image_is_written_in_pieces_that_fit_the_memory_and_read_back(tmp_path: Path, with_hash: bool) -> None:
    board, data, seen = PlayedUBoot(tmp_path, with_hash=with_hash), content(33 << 20)[: 33 << 20], list[Progress]()
    chosen = way(board)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    assert plan.target.size_bytes == 40 << 20
    chosen.write(plan, seen.append)
    verified = chosen.verify(plan)
    assert bytes(board.disk[: len(data)]) == data
    assert (verified.digest, verified.bytes, verified.method) == (hashlib.sha256(data).hexdigest(), len(data), "full")
    assert seen[-1].done == len(data)
    loads = [command for command in board.typed if command.startswith("tftpboot")]
    assert len(loads) > 1
    assert "setenv tftpdstp 6969" in board.typed
    assert not any("saveenv" in command for command in board.typed)
    assert {path.name for path in tmp_path.iterdir()} == {"sdk.wic"}


def test_a_medium_that_says_ok_and_has_something_else_is_not_verified(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    board.forgets = {0}
    chosen = way(board)
    plan = chosen.plan(image(tmp_path, content(4096)), TARGET)
    chosen.write(plan, lambda _progress: None)
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        chosen.verify(plan)


def test_what_was_garbled_on_the_way_is_not_written(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)

    def garble(command: str, lines: list[str]) -> list[str]:
        if command.startswith("tftpboot"):
            board.memory[int(command.split()[1], 16) - BASE] ^= 1
        return lines

    board.spoil = garble
    chosen = way(board)
    plan = chosen.plan(image(tmp_path, content(4096)), TARGET)
    with pytest.raises(MediaVerifyFailedError, match="loaded"):
        chosen.write(plan, lambda _progress: None)
    assert not any(board.disk)


def test_an_image_that_is_too_large_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path, size=1 << 20)
    with pytest.raises(ImageTooLargeError):
        way(board).plan(image(tmp_path, content(2 << 20)), TARGET)
    assert not any(re.match("nvme write|tftpboot", command) for command in board.typed)


def test_a_flash_is_erased_before_it_is_written_and_its_boot_part_comes_last(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    parts = [
        part(tmp_path, "tiboot3.bin", b"one" * 999, Place(offset=0)),
        part(tmp_path, "rootfs", content(300_000), Place(offset=0x100000)),
    ]
    board.flash[:] = bytes(len(board.flash))
    chosen = way(board, "cfi 0x4000000")
    plan = chosen.plan(Content(None, parts), TARGET)
    chosen.write(plan, lambda _progress: None)
    chosen.verify(plan)
    assert [step.name for step in plan.steps] == ["rootfs", "tiboot3.bin"]
    assert bytes(board.flash[:2997]) == b"one" * 999
    assert not any(board.flash[0x40000:0x100000])  # what belongs to nobody is as it was


def test_places_that_uboot_cannot_write_are_refused_with_the_reason(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    for place, medium in (
        (Place(partition=1), "nvme 0"),
        (Place(offset=0, hardware="boot0"), "nvme 0"),
        (Place(offset=1), "cfi 0x4000000"),
    ):
        with pytest.raises(ConfigurationError):
            way(board, medium).plan(Content(None, [part(tmp_path, "x", b"x", place)]), TARGET)
    with pytest.raises(ConfigurationError, match="extcsd"):
        way(board).plan(Content(None, [part(tmp_path, "x", b"x", Place(offset=0))], ExtCsd([1, 1, 1])), TARGET)


@pytest.mark.parametrize(
    ("command", "lines", "kind"),
    [
        ("tftpboot", ["Loading: *T T T T T", "Retry count exceeded; starting again"], TftpTimeoutError),
        ("nvme write", ["nvme write: device 0 block # 0, count 8 ... 3 blocks written: ERROR"], MediaWriteFailedError),
        ("nvme write", [], MediaWriteFailedError),
    ],
)
def test_a_write_ends_with_the_class_of_what_was_said_and_the_next_one_succeeds(
    tmp_path: Path, command: str, lines: list[str], kind: type[Exception]
) -> None:
    board, data = PlayedUBoot(tmp_path), content(4096)[:4096]
    chosen = way(board)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    board.spoil = lambda typed, said: lines if typed.startswith(command) else said
    with pytest.raises(kind):
        chosen.write(plan, lambda _progress: None)
    board.spoil = lambda _typed, said: said
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).digest == hashlib.sha256(data).hexdigest()
