"""From Linux over ssh: labgrid's SSHDriver, a real ssh and a real sshd; the medium is a file that the sshd's shells see as a device."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labgrid import Target
from labgrid.driver import SSHDriver
from labgrid.resource import NetworkService
from support import realsshd

from lab.drivers import LinuxWriterDriver, guarded_calls
from lab.drivers.guarded_calls import SHELL
from lab.errors import ConfigurationError
from lab.provision.errors import MediaVerifyFailedError, TftpTimeoutError
from lab.provision.release import Content, Image
from lab.provision.writer import Writer
from lab.provision.writer import WriteTarget as Medium
from lab.run.board import Status

CARD_BYTES = 24 << 20
MEDIUM = Medium("b1", "any", "emmc")


class Here:
    """This machine's shell, which the sshd's is too: the board's console."""

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        done = subprocess.run(["sh", "-c", cmd], capture_output=True, text=True, check=False, timeout=timeout)
        return done.stdout.splitlines(), done.stderr.splitlines(), done.returncode


class PlayedStrategy:
    """A board whose Linux runs already."""

    board = "b1"

    def __init__(self, target: Target) -> None:
        self.target, self.status, self.linux = target, Status.linux, Here()

    def select_medium(self, _medium: str) -> None: ...

    def transition(self, _status: str) -> None: ...

    def activate(self, driver: Any, kind: Any, _late: Any) -> None:
        guarded_calls.call(driver, kind, "activate", lambda: self.target.activate(driver), 60.0)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[realsshd.Sshd]:
    if why := realsshd.missing():
        pytest.skip(why)
    with realsshd.running_sshd(tmp_path, CARD_BYTES) as sshd:
        yield sshd


@pytest.fixture
def writer(board: realsshd.Sshd) -> Iterator[tuple[Writer, Any]]:
    """The way over ssh, and its driver, whose connection ends with the test."""
    target = Target("main")
    NetworkService(target, "service", address="127.0.0.1", username="root", port=board.port)
    ssh = SSHDriver(target, "ssh", keyfile=str(board.key))
    driver = LinuxWriterDriver(target, "writer", media={"emmc": realsshd.DEVICE}, boot_from="sd", over="ssh")
    yield driver.writers(PlayedStrategy(target))["emmc"], ssh
    target.deactivate(ssh)


def image(folder: Path, data: bytes) -> Content:
    (folder / "sdk.wic").write_bytes(data)
    return Content(Image(source=str(folder / "sdk.wic"), sha256=hashlib.sha256(data).hexdigest(), size=len(data)))


def test_an_image_goes_over_ssh_and_is_read_back(
    board: realsshd.Sshd, writer: tuple[Writer, Any], tmp_path: Path
) -> None:
    data = os.urandom((17 << 20) + 512)
    chosen, ssh = writer
    plan = chosen.plan(image(tmp_path, data), MEDIUM)
    assert (plan.way, plan.target.size_bytes) == ("linux-ssh", CARD_BYTES)
    chosen.write(plan, lambda _progress: None)
    assert board.card.read_bytes() == data + b"\xa5" * (CARD_BYTES - len(data))
    assert chosen.verify(plan).digest == hashlib.sha256(data).hexdigest()
    assert ssh.state.name == "bound"  # the next board that boots there gets a connection of its own
    with board.card.open("r+b") as card:
        card.seek(1 << 20)
        card.write(bytes([data[1 << 20] ^ 1]))
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def test_a_piece_that_does_not_arrive_is_a_network_that_does_not_carry(
    tmp_path: Path, writer: tuple[Writer, Any]
) -> None:
    chosen, ssh = writer
    guarded_calls.call(ssh, SHELL, "activate", lambda: ssh.target.activate(ssh), 60.0)
    with pytest.raises(TftpTimeoutError, match="over ssh"):
        chosen.carrier.put(str(tmp_path / "nothing"), "/run/boardlab-piece", 1)  # type: ignore[attr-defined]


def test_without_an_ssh_driver_it_is_told_at_once() -> None:
    driver = LinuxWriterDriver(Target("main"), "writer", media={"emmc": "/dev/mmcblk0"}, boot_from="sd", over="ssh")
    with pytest.raises(ConfigurationError, match="NetworkService"):
        driver.writers(PlayedStrategy(driver.target))
