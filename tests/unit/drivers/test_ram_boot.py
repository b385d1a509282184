"""A Linux is loaded into a board's memory, started, and used; the board is played at U-Boot's prompt and at the wire."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import define, field
from labgrid import Target

from lab import boards
from lab.drivers import LinuxWriterDriver
from lab.drivers.linuxwriterdriver import RamBoot
from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.ramlinux import PROMPT, RamLinux
from lab.provision.release import Recovery
from lab.provision.writers.command import CommandPrompt

KERNEL = struct.pack("<IIQQQQQQ", 0x91005A4D, 0, 0, 0, 0xA, 0, 0, 0)[:56] + b"ARM\x64" + bytes(9000)
LINUX = RamLinux(KERNEL, b"initramfs", b"tree")
BDINFO = ["DRAM bank   = 0x0000000000000000", "-> start    = 0x0000000040000000", "-> size     = 0x0000000010000000"]
UP = [b"Starting kernel ...\r\n", b"Linux in memory is up: 6.1.0\r\nroot@ram-linux:/# "]


@define
class PlayedUBoot:
    """U-Boot with memory. flips: it computes another digest of that file."""

    prompt: str = "=> "
    memory: dict[int, bytes] = field(factory=dict)
    typed: list[str] = field(factory=list)
    flips: bytes = b""

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's UBootDriver."""
        del timeout
        self.typed.append(cmd)
        if cmd == "bdinfo":
            return BDINFO, [], 0
        if found := re.match(r"hash sha256 (0x[0-9a-f]+) (0x[0-9a-f]+)", cmd):
            data = self.memory[int(found[1], 16)]
            assert len(data) == int(found[2], 16)
            digest = hashlib.sha256(data + (b"x" if data == self.flips else b"")).hexdigest()
            last = int(found[1], 16) + int(found[2], 16) - 1
            return [f"sha256 for {found[1][2:]} ... {last:08x} ==> {digest}"], [], 0
        return [], [], 0


@define
class PlayedConsole:
    """What came after U-Boot's command; then it is silent, and time goes by."""

    reads: list[bytes]
    sent: list[str] = field(factory=list)
    asked: list[bytes] = field(factory=list)
    now: int = 0

    def send(self, data: bytes) -> None:
        self.sent.append(data.decode())
        self.reads += self.asked
        self.asked = []

    def sendline(self, line: str) -> None:
        self.sent.append(line)

    def receive(self, timeout: float) -> bytes:
        self.now += round(timeout * 1e9)
        return self.reads.pop(0) if self.reads else b""

    def now_ns(self) -> int:
        return self.now


@define
class Memory:
    """A `Loader` into the memory of a PlayedUBoot."""

    uboot: PlayedUBoot
    rate: float = 1e6
    note: str = ""
    serves: bool = False

    def prepare(self, _prompt: CommandPrompt, /) -> None:
        self.serves = True

    def rest(self) -> None:
        self.serves = False

    def load(self, _prompt: CommandPrompt, address: int, data: bytes, name: str, /) -> None:
        assert self.serves
        assert re.fullmatch(r"[\w-]+", name)
        self.uboot.memory[address] = data


class PlayedBoard:
    """The strategy as far as it is needed."""

    def __init__(self, reads: Sequence[bytes]) -> None:
        self.type, self.board = boards.load("am62xx_sk"), "b1"
        self.uboot, self.console = PlayedUBoot(), PlayedConsole(list(reads))
        self.power = SimpleNamespace(clock=self.console)
        self.shell = SimpleNamespace(prompt="root@am62xx-evm:[^ ]*# ")
        self.activated: list[object] = []
        self.recovery, self.status = Recovery(), SimpleNamespace(name="bootloader")
        self.lives = False

    def bound(self, name: str, _driver: str) -> object:
        return getattr(self, name)

    def activate(self, driver: object, _kind: object, _late: object) -> None:
        self.activated.append(driver)


@pytest.fixture(autouse=True)
def _no_labgrid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drivers here are no labgrid drivers, which could be deactivated."""
    monkeypatch.setattr("lab.drivers.linuxwriterdriver.guarded_calls.deactivate", lambda *_words: None)


def boot(board: PlayedBoard) -> None:
    loader = Memory(board.uboot)
    try:
        RamBoot(lambda: LINUX, loader)(board)
    finally:
        assert not loader.serves  # the port is free for the next medium's


def test_it_is_loaded_compared_started_and_its_shell_is_used() -> None:
    board = PlayedBoard(UP)
    boot(board)
    assert sorted(map(len, board.uboot.memory.values())) == sorted([len(KERNEL), 9, 4])
    assert sum(line.startswith("hash sha256") for line in board.uboot.typed) == 3
    assert "setenv bootargs 'console=ttyS2,115200n8 rdinit=/init loglevel=4'" in board.uboot.typed
    (command,) = board.console.sent
    assert command.split()[0] == "booti"
    assert {int(word.partition(":")[0], 16) for word in command.split()[1:]} == set(board.uboot.memory)
    assert board.activated == [board.shell]
    for prompt in ("root@ram-linux:/# ", "root@am62xx-evm:~# "):
        assert re.search(board.shell.prompt, prompt)
    board.console.reads = list(UP)
    boot(board)
    assert board.shell.prompt.count(PROMPT) == 1


def test_what_was_loaded_wrong_is_not_started() -> None:
    board = PlayedBoard(UP)
    board.uboot.flips = LINUX.initramfs
    with pytest.raises(MediaVerifyFailedError, match="initramfs"):
        boot(board)
    assert board.console.sent == []


@pytest.mark.parametrize(
    ("reads", "failure"),
    [
        ([b"Starting kernel ...\r\n"], "hang_kernel"),
        ([b"[    0.9] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n"], "kernel_panic"),
        ([b"U-Boot SPL 2025.01\r\n"], "reset"),
        ([b"Bad Linux ARM64 Image magic!\r\n=> "], "recovery_failed"),
    ],
)
def test_a_start_that_fails_has_its_class(reads: list[bytes], failure: str) -> None:
    board = PlayedBoard(reads)
    with pytest.raises(BoardlabError) as caught:
        boot(board)
    assert caught.value.failure == failure
    assert board.activated == []


def test_a_prompt_that_a_kernel_line_tore_is_asked_for_once() -> None:
    board = PlayedBoard([b"root@ram-[ 12.3] mmc1: error -110\r\nlinux:~# "])
    board.console.asked = [b"\r\nroot@ram-linux:~# "]
    boot(board)
    assert board.console.sent[1:] == ["\r"]
    assert board.activated == [board.shell]


def test_a_linux_that_repeats_itself_for_ever_is_given_up() -> None:
    board = PlayedBoard([b"[ 12.3] random: crng init\r\n"] * 100_000)
    with pytest.raises(BoardlabError, match=f"within {board.type.timeouts.boot_s + 60:g} s") as caught:
        boot(board)
    assert caught.value.failure == "hang_kernel"
    assert board.console.sent[1:] == ["\r"]
    assert board.console.reads, "it was given up while it still spoke"


def writer(**words: object) -> LinuxWriterDriver:
    return LinuxWriterDriver(Target("main"), "w", media={"emmc": "/dev/mmcblk0"}, boot_from="ram", **words)


def test_without_files_nothing_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="lab release ram-linux"):
        writer()._files([])
    with pytest.raises(ConfigurationError, match=r"initramfs: .*No such"):
        writer(ram={"initramfs": str(tmp_path / "none")})._files([])
    with pytest.raises(ConfigurationError, match="kernal"):
        writer(ram={"kernal": "x"})


def test_the_environments_files_are_known_by_their_keys(tmp_path: Path) -> None:
    (tmp_path / "vmlinux-initrd").write_bytes(KERNEL)
    (tmp_path / "root").write_bytes(b"initramfs")
    found = writer(ram={"kernel": str(tmp_path / "vmlinux-initrd"), "initramfs": str(tmp_path / "root")})._files([])
    assert (found.kernel, found.initramfs, found.device_tree) == (KERNEL, b"initramfs", b"")
