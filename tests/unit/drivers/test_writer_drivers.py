"""What the drivers that write from the board itself add to their ways: whose TFTP server it is, and what Linux needs first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from labgrid import Target

from lab.drivers import LinuxWriterDriver, UBootWriterDriver
from lab.drivers import ubootwriterdriver as module
from lab.errors import ConfigurationError
from lab.provision.failures import MediaWriteFailedError

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
            self.loaded = path.read_bytes()
            return [f"Bytes transferred = {len(self.loaded)} ({len(self.loaded):x} hex)"], [], 0
        return [], [], 0


def test_the_pieces_lie_in_a_folder_of_their_own_below_that_of_the_lab_s_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "serving", lambda *_words: pytest.fail("a server of its own was started"))
    driver = UBootWriterDriver(Target("main"), "w", media={"emmc": "mmc 1"}, server="10.0.2.2", folder=str(tmp_path))
    uboot = PlayedUBoot(tmp_path)
    served = module._Served(driver)
    served.load(uboot, 0x5000_0000, PIECE, "image-0")
    assert uboot.loaded == PIECE
    assert "setenv serverip 10.0.2.2" in uboot.typed
    assert not any("tftpdstp" in line for line in uboot.typed)  # port 69
    served.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told_before_the_board_loads(tmp_path: Path) -> None:
    driver = UBootWriterDriver(Target("main"), "w", media={"emmc": "mmc 1"}, folder=str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="must be the folder of the TFTP server"):
        module._Served(driver).prepare(PlayedUBoot(tmp_path))


class PlayedBoard:
    """The strategy as far as a Linux that writes needs it."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.typed, self.answer = SimpleNamespace(name="off"), list[str](), status
        self.linux = SimpleNamespace(run=self.run)

    def select_medium(self, _medium: str) -> None: ...

    def transition(self, status: str) -> None:
        self.status = SimpleNamespace(name=status)

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        del timeout
        self.typed.append(cmd)
        return [], [], self.answer


def linux_writer() -> LinuxWriterDriver:
    return LinuxWriterDriver(
        Target("main"), "w", media={"emmc": "/dev/mmcblk1"}, boot_from="sd", prepare="/etc/init.d/network"
    )


def test_what_linux_needs_first_is_done_once_after_each_boot() -> None:
    board = PlayedBoard()
    way = linux_writer().ways(board)["emmc"]
    for _ in range(2):
        way.begin()  # type: ignore[attr-defined]
    assert board.typed == ["/etc/init.d/network"]
    board.transition("off")
    way.begin()  # type: ignore[attr-defined]
    assert len(board.typed) == 2


def test_a_preparation_that_fails_ends_the_try() -> None:
    way = linux_writer().ways(PlayedBoard(status=1))["emmc"]
    with pytest.raises(MediaWriteFailedError, match=r"/etc/init\.d/network: exit status 1"):
        way.begin()  # type: ignore[attr-defined]
