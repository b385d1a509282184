"""A U-Boot that is played: memory, an NVMe or eMMC, a flash and UBI volumes; and what is written to them."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path

from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import WriteTarget
from lab.provision.writers import ubootmedia
from lab.provision.writers.uboot import Network, Tftp, UBootWriter

TARGET = WriteTarget("b1", "any", "emmc")
BASE = 0x40000000
BDINFO = [f"-> start    = {BASE:#018x}", f"-> size     = {64 << 20:#018x}", "irq_sp      = 0x0000000043f00000"]
Spoil = Callable[[str, list[str]], list[str]]


class PlayedUBoot:
    """A prompt with memory, an NVMe of `size` bytes and a CFI flash; files come from `folder`."""

    def __init__(self, folder: Path, size: int = 40 << 20, *, with_hash: bool = True) -> None:
        self.folder, self.memory, self.disk = folder, bytearray(64 << 20), bytearray(size)
        self.flash, self.with_hash = bytearray(b"\xff" * (4 << 20)), with_hash
        self.boot, self.area, self.volumes = (
            [bytearray(4 << 20), bytearray(4 << 20)],
            0,
            {"rootfs": bytearray(1 << 20)},
        )
        self.lists: dict[str, str] = {}
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
            case ["mw.l", address, value, count]:
                self._store(int(address, 16), bytes.fromhex(value.removeprefix("0x")) * int(count, 16))
            case ["crc32", address, count]:
                return [f"crc32 for {_span(address, count)} ==> {zlib.crc32(self._bytes(address, count)):08x}"]
            case ["hash", "sha256", address, count, "&&", "echo"]:
                return [
                    f"sha256 for {_span(address, count)} ==> {hashlib.sha256(self._bytes(address, count)).hexdigest()}"
                ]
            case _ if " ".join(words) in self.lists:
                return self.lists[" ".join(words)].splitlines()
            case ["mmc", "dev", _, area]:
                self.area = int(area)
                return [f"switch to partitions #{area}, OK", f"mmc0(part {area}) is current device"]
            case ["mmc", "info"]:
                return ["Name: S0J56X", f"Capacity: {len(self.disk) / (1 << 20):.1f} MiB", "Boot Capacity: 4 MiB ENH"]
            case ["mmc", "write" | "read" as verb, address, block, count]:
                return self._mmc(verb, int(address, 16) - BASE, int(block, 16), int(count, 16))
            case ["ubi", "part", _]:
                return ['ubi0: attached mtd6 (name "ospi.rootfs", size 55 MiB)']
            case ["ubi", "check", name]:
                return [] if name in self.volumes else [f"Volume {name} not found!"]
            case ["ubi", "info", "l"]:
                return [line for name, data in self.volumes.items() for line in _volume(name, len(data))]
            case ["ubi", "write", address, name, count]:
                data = self._bytes(address, count)
                self.volumes[name][: len(data)] = data
                return [f"{len(data)} bytes written to volume {name}"]
            case ["ubi", "read", address, name, count]:
                self._store(int(address, 16), bytes(self.volumes[name][: int(count, 16)]))
                return [f"Read {int(count, 16)} bytes from volume {name} to {address}"]
            case ["part", "start" | "size" as what, _, _, "2"]:
                return ["800" if what == "start" else "400"]
            case ["part", *_]:
                return ["** Invalid partition 3 **"]
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

    def _mmc(self, verb: str, at: int, block: int, count: int) -> list[str]:
        """drivers/mmc: as it says it."""
        space = self.disk if self.area == 0 else self.boot[self.area - 1]
        begin, length = block * 512, count * 512
        head = f"MMC {verb}: dev # 0, block # {block}, count {count} ... "
        if begin + length > len(space):
            return [
                f"{head}MMC: block number {block + count:#x} exceeds max({len(space) // 512:#x})",
                "0 blocks read: ERROR",
            ]
        if verb == "read":
            self.memory[at : at + length] = space[begin : begin + length]
        else:
            space[begin : begin + length] = self.memory[at : at + length]
        return [f"{head}{count} blocks {'read' if verb == 'read' else 'written'}: OK"]

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


def writer(board: PlayedUBoot, medium: str = "nvme 0") -> UBootWriter:
    found = ubootmedia.parse(medium, erase_bytes=256 * 1024)
    return UBootWriter("uboot-tftp", found, Tftp(board.folder, Network("10.0.2.2", 6969)), lambda: board, lambda: None)


def image(folder: Path, data: bytes) -> Content:
    path = folder / "sdk.wic"
    path.write_bytes(data)
    return Content(Image(source=str(path), sha256=hashlib.sha256(data).hexdigest()))


def part(folder: Path, name: str, data: bytes, place: PartPlace) -> Part:
    (folder / name).write_bytes(data)
    return Part(source=str(folder / name), sha256=hashlib.sha256(data).hexdigest(), name=name, to=place)


def content(count: int) -> bytes:
    return bytes(range(251)) * (count // 251 + 1)


def _volume(name: str, size: int) -> list[str]:
    """cmd/ubi.c: display_volume_info."""
    block = 126976
    fields = {
        "vol_id": 0,
        "reserved_pebs": -(-size // block),
        "alignment": 1,
        "usable_leb_size": block,
        "corrupted": 0,
    }
    return [
        "ubi0: volume information dump:",
        *(f"ubi0: {key:15} {value}" for key, value in fields.items()),
        f"ubi0: name            {name}",
    ]


def _span(address: str, count: str) -> str:
    """common/hash.c: as it says what a digest is of."""
    begin = int(address, 16)
    return f"{begin:08x} ... {begin + int(count, 16) - 1:08x}"
