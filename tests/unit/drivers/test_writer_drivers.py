"""What the drivers that write from the board itself add to their ways: whose TFTP server it is, and what Linux needs first."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path

import pytest
import tftpy
from labgrid import Target
from support import playeduboot

from lab import boards
from lab.drivers import LinuxWriterDriver, boardservers
from lab.drivers.boardservers import BoardServer
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision.errors import MediaWriteFailedError, TargetRefusedError
from lab.provision.release import Content, PartPlace
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers import ubootmedia
from lab.provision.writers.command import carry_out
from lab.provision.writers.uboot import UBootWriter

BOOT = "0d1f6a1e-4c3b-4f0e-9d2c-71a1b2c3d4e5"
PIECE = b"p" * 1000


class PlayedUBoot:
    """Loads from the folder that a server of the lab's gives out."""

    def __init__(self, root: Path) -> None:
        self.root, self.typed, self.loaded = root, list[str](), b""

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's UBootDriver."""
        del timeout
        self.typed.append(cmd)
        if cmd == "dhcp":
            return ["DHCP client bound to address 10.0.2.15 (1 ms)"], [], 0
        if cmd.startswith("tftpboot"):
            path = self.root / cmd.split()[2]
            assert path.parent.stat().st_mode & 0o555 == 0o555  # the server may be another user's
            assert path.stat().st_mode & 0o444 == 0o444
            self.loaded = path.read_bytes()
            return [f"Bytes transferred = {len(self.loaded)} ({len(self.loaded):x} hex)"], [], 0
        return [], [], 0


def test_the_pieces_lie_in_a_folder_of_their_own_below_that_of_the_lab_s_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boardservers, "serving", lambda *_words: pytest.fail("a server of its own was started"))
    uboot = PlayedUBoot(tmp_path)
    served = BoardServer("127.0.0.1", "10.0.2.2", port=69, folder=str(tmp_path))
    before = os.umask(0o077)  # as a service that keeps its files to itself
    try:
        served.load(uboot, 0x5000_0000, PIECE, "image-0")
    finally:
        os.umask(before)
    assert uboot.loaded == PIECE
    assert "setenv serverip 10.0.2.2" in uboot.typed
    assert not any("tftpdstp" in line for line in uboot.typed)  # port 69
    served.close()
    assert list(tmp_path.iterdir()) == []


class FetchingUBoot(playeduboot.PlayedUBoot):
    """Loads over TFTP, from whatever has the port that it was told."""

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's UBootDriver."""
        if cmd.startswith("setenv tftpdstp"):
            self.port = int(cmd.split()[2])
        if cmd.startswith("tftpboot"):
            name = cmd.split()[2]
            tftpy.TftpClient("127.0.0.1", self.port).download(name, str(self.folder / name))
        return super().run(cmd, timeout)


def test_media_are_written_one_after_the_other_from_servers_on_one_port(tmp_path: Path) -> None:
    board, port = FetchingUBoot(tmp_path), free_port()
    media = {"nvme 0": PartPlace(offset=0), "cfi 0x4000000": PartPlace(offset=0x40000)}

    def writers() -> list[UBootWriter]:
        found = []
        for medium in media:
            served = BoardServer("127.0.0.1", port=port)
            parsed = ubootmedia.parse(medium, erase_bytes=256 * 1024)
            found.append(UBootWriter("uboot-tftp", parsed, served, lambda: board, served.close))
        return found

    contents = [
        Content(None, [playeduboot.part(tmp_path, f"part-{number}", PIECE, place)])
        for number, place in enumerate(media.values())
    ]
    plans = [writer.plan(what, playeduboot.TARGET) for writer, what in zip(writers(), contents, strict=True)]
    assert not any(board.disk)
    for writer, plan in zip(writers(), plans, strict=True):
        writer.write(plan, lambda _progress: None)
        assert writer.verify(plan).bytes == len(PIECE)
    assert bytes(board.disk[: len(PIECE)]) == bytes(board.flash[0x40000:][: len(PIECE)]) == PIECE


def test_a_server_that_prepares_again_has_its_port_again(tmp_path: Path) -> None:
    board, served = FetchingUBoot(tmp_path), BoardServer("127.0.0.1", port=free_port())
    for _ in range(2):
        served.prepare(board)
        served.load(board, playeduboot.BASE, PIECE, "piece")
    served.close()
    assert bytes(board.memory[: len(PIECE)]) == PIECE


def free_port() -> int:
    """A UDP port that nobody has, of those that no program gets without asking for it."""
    for port in range(61001, 65536):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    pytest.fail("no UDP port is free")


def test_a_folder_that_is_not_there_is_told_before_the_board_loads(tmp_path: Path) -> None:
    served = BoardServer("127.0.0.1", folder=str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"folder.*TFTP server"):
        served.prepare(PlayedUBoot(tmp_path))


class PlayedBoard:
    """The strategy as far as a Linux that writes needs it; this host's shell plays that, with a folder as its /run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.linux, self.board = folder, self, "b1"
        self.console, self.type, self.said = self, boards.load("qemu-virt"), b""

    def captured(self) -> bytes:
        return self.said

    def select_medium(self, _medium: str) -> None: ...

    def activate(self, driver: object, _kind: object, _late: object) -> None: ...

    def transition(self, _status: str) -> None: ...

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        here = cmd.replace("/run/", f"{self.folder}/")
        done = subprocess.run(
            ["sh", "-c", here], cwd=self.folder, capture_output=True, text=True, check=False, timeout=timeout
        )
        return done.stdout.splitlines(), done.stderr.splitlines(), done.returncode


def linux_writer(prepare: str) -> LinuxWriterDriver:
    return LinuxWriterDriver(Target("main"), "w", media={"emmc": "/dev/mmcblk1"}, boot_from="sd", prepare=prepare)


def test_what_linux_needs_first_is_done_once_in_each_boot(tmp_path: Path) -> None:
    writer = linux_writer("echo loaded >> modules; echo up").writers(PlayedBoard(tmp_path))["emmc"].writer  # type: ignore[attr-defined]
    for _ in range(2):
        writer.begin()  # type: ignore[attr-defined]
    assert (tmp_path / "modules").read_text() == "loaded\n"
    (tmp_path / "boardlab-prepared").unlink()  # the board booted anew
    writer.begin()  # type: ignore[attr-defined]
    assert (tmp_path / "modules").read_text() == "loaded\n" * 2


class PlayedSsh:
    """labgrid's SSHDriver, behind which a machine with that answer to `boot_id` is."""

    def __init__(self, said: str) -> None:
        self.said = said

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        del timeout
        return ([self.said] if "boot_id" in cmd else []), [], 0


@pytest.mark.parametrize(
    ("ours", "theirs", "refused"),
    [
        (BOOT, BOOT, False),
        (f"[   12.3] mmc1: error {BOOT}", BOOT, False),
        (BOOT, BOOT.replace("1", "2"), True),
        (BOOT, "", True),
        ("", BOOT, True),
        ("", "", True),
    ],
)
def test_over_ssh_only_the_board_whose_console_it_is_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str, refused: bool
) -> None:
    driver = LinuxWriterDriver(Target("main"), "w", media={"emmc": "/dev/mmcblk1"}, boot_from="sd", over="ssh")
    driver.ssh = PlayedSsh(theirs)
    board = PlayedBoard(tmp_path)
    monkeypatch.setattr(board, "run", PlayedSsh(ours).run)
    writer = driver.writers(board)["emmc"].writer  # type: ignore[attr-defined]
    if refused:
        with pytest.raises(TargetRefusedError, match="own address in the env"):
            writer.begin()  # type: ignore[attr-defined]
    else:
        assert writer.begin().driver is driver.ssh  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (b"[ 99.1] Kernel panic - not syncing: Fatal exception\r\n", "kernel_panic"),
        (b"[ 99.1] mmc1: busy\r\n", "write_stalled"),
    ],
)
def test_a_kernel_that_ends_within_a_write_is_no_stalled_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, failure: str
) -> None:
    board = PlayedBoard(tmp_path)
    board.said = b"Kernel panic - not syncing: of an older boot\r\n"
    prompt = linux_writer("").writers(board)["emmc"].writer.begin()  # type: ignore[attr-defined]

    def hang(_cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        board.said += said
        raise BoardTransientError(f"no prompt within {timeout} s", failure="shell_timeout")

    monkeypatch.setattr(board, "run", hang)
    with pytest.raises(BoardlabError) as caught:
        carry_out(prompt, answers.write("/dev/mmcblk1", 0, 4096))
    assert caught.value.failure == failure


def test_a_preparation_that_fails_ends_the_try_and_is_done_again_by_the_next(tmp_path: Path) -> None:
    writer = linux_writer("echo tried >> log; echo no address; false").writers(PlayedBoard(tmp_path))["emmc"].writer  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(MediaWriteFailedError, match=r"status 1.*no address"):
            writer.begin()  # type: ignore[attr-defined]
    assert (tmp_path / "log").read_text() == "tried\n" * 2
