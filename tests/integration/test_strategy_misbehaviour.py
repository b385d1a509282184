"""The strategy against a board that misbehaves: what is refused, by whose fault, and that it can be used again.

The board is a scripted pty, the power switch an HTTP server, the console server the real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from labgrid import Target
from labgrid.resource import PDUDaemonPort, RawSerialPort
from support.scripted_board import HEALTHY, ScriptedBoard
from support.strategies import BoardStrategy

from lab.benchmarks.boot import BootWatch
from lab.console.client import ConsoleClient, ensure_server
from lab.console.model import Chunk
from lab.drivers import StampedConsoleDriver, StampedPDUDaemonDriver
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabStableError, LabTransientError
from lab.host.runtime import socket_path
from lab.run.board import Status


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "runtime"
    ensure_server(folder)
    yield folder
    with ConsoleClient(socket_path(folder)) as client:
        client.stop()


@pytest.fixture
def board() -> Iterator[ScriptedBoard]:
    board = ScriptedBoard()
    yield board
    board.close()


@pytest.fixture
def sut(board: ScriptedBoard, runtime: Path) -> Iterator[BoardStrategy]:
    target = Target("main")
    PDUDaemonPort(target, None, host=board.power_address, pdu="bench", index=1)
    RawSerialPort(target, None, port=board.port)
    StampedPDUDaemonDriver(target, None)
    StampedConsoleDriver(target, None, runtime=str(runtime))
    strategy = BoardStrategy(target, None, board_type="qemu-virt", board="scripted-1")
    limits = evolve(strategy.type.timeouts, first_byte_s=0.5, hang_silence_s=0.5, off_silence_s=0.1, discharge_s=0.0)
    strategy.type = evolve(strategy.type, timeouts=limits)
    yield strategy
    target.cleanup()


def failure(sut: BoardStrategy) -> BoardlabError:
    with pytest.raises(BoardlabError) as raised:
        sut.boot()
    assert sut.status is Status.unknown
    return raised.value


def test_a_healthy_boot_gives_all_moments_before_a_key_is_sent(sut: BoardStrategy, board: ScriptedBoard) -> None:
    watch: BootWatch = sut.boot()
    assert [m.name for m in watch.moments] == [p.name for p in sut.type.moments if p.name != "shell"]
    assert watch.seen == {"uboot": "sd", "kernel": "sd", "rootfs": "sd"}
    # Before it is switched off, whether it lives; after, that it does not answer; and at the prompt, when that is timed.
    assert board.typed == b"\r\r\r"


def test_nothing_from_before_power_on_is_in_the_boot(sut: BoardStrategy, board: ScriptedBoard) -> None:
    sut.boot()
    watch = sut.boot()
    boot = sut.console.capture[: watch.events]  # what follows is the answer at the prompt
    assert b"".join(event.data for event in boot if isinstance(event, Chunk)) == HEALTHY
    assert board.commands == ["off", "on", "off", "on"]


@pytest.mark.parametrize(
    ("boot", "expected", "kind"),
    [
        (b"", "silent", BoardTransientError),
        (HEALTHY[:60], "hang_uboot", BoardTransientError),
        (HEALTHY[:-16], "hang_before_login", BoardTransientError),
        (HEALTHY.replace(b"mode pins: sd", b"mode pins: emmc"), "wrong_medium", LabTransientError),
        (HEALTHY.replace(b"Run /init", b"Kernel panic - not syncing: x\r\n"), "kernel_panic", BoardTransientError),
        (HEALTHY[:-16] + HEALTHY, "reset", BoardTransientError),
        (b"\r\nU-Boot 2023.01 (test)\r\n=> ", "stopped_at_uboot", BoardTransientError),
        (bytes(range(128, 256)) * 16, "garbled", LabTransientError),
        (b"\0" * 4000, "garbled", LabTransientError),
    ],
)
def test_every_misbehaviour_has_its_class(
    sut: BoardStrategy, board: ScriptedBoard, boot: bytes, expected: str, kind: type[BoardlabError]
) -> None:
    board.boots = [boot, HEALTHY]
    error = failure(sut)
    assert (error.failure, type(error)) == (expected, kind)
    sut.boot()  # the next cycle is clean


def test_a_stuck_relay_is_the_labs_stable_fault(sut: BoardStrategy, board: ScriptedBoard) -> None:
    sut.boot()
    board.stuck_relay = True
    sut.type = evolve(
        sut.type, timeouts=evolve(sut.type.timeouts, off_silence_s=5.0)
    )  # a starved host's board echoes late
    error = failure(sut)
    assert (error.failure, type(error)) == ("power_off_ineffective", LabStableError)
    assert board.commands.count("off") == 3  # the first boot's, and two tries
    board.stuck_relay = False
    sut.boot()


def test_a_pdu_that_refuses_leaves_the_board_unknown_and_usable(sut: BoardStrategy, board: ScriptedBoard) -> None:
    board.status = 500
    assert failure(sut).failure == "pdu_refused"
    board.status = 200
    sut.boot()


def test_a_console_server_that_dies_is_replaced_in_the_next_cycle(
    sut: BoardStrategy, board: ScriptedBoard, runtime: Path
) -> None:
    sut.boot()

    def kill(command: str) -> None:
        if command == "on" and "killed" not in board.commands:
            board.commands.append("killed")
            with ConsoleClient(socket_path(runtime)) as client:
                client.stop()

    board.on_power = kill
    assert failure(sut).failure == "console_server_gone"
    assert sut.boot().done


THIEF = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print('reading', flush=True)\nwhile True: os.read(fd, 1)"


def test_bytes_that_another_program_takes_away_are_not_the_boards_fault(
    sut: BoardStrategy, board: ScriptedBoard
) -> None:
    sut.boot()
    thieves: list[subprocess.Popen[bytes]] = []

    def steal(command: str) -> None:
        if command == "on":
            thieves.append(subprocess.Popen([sys.executable, "-c", THIEF, board.port], stdout=subprocess.PIPE))
            assert thieves[0].stdout is not None
            assert thieves[0].stdout.readline() == b"reading\n"

    board.on_power = steal
    board.boots = [HEALTHY[:-16], HEALTHY]  # the prompt is what it missed, however the bytes were shared
    try:
        error = failure(sut)
    finally:
        for thief in thieves:
            with thief:
                thief.kill()
    assert (error.failure, type(error)) == ("console_shared", LabTransientError)
    assert f"pid {thieves[0].pid} (python" in str(error)
    assert isinstance(error.__cause__, BoardTransientError)
    board.on_power = lambda _command: None
    sut.boot()


def test_two_writers_are_told_of_each_other(sut: BoardStrategy, board: ScriptedBoard, runtime: Path) -> None:
    with ConsoleClient(socket_path(runtime)) as other:
        other.attach(other.open(board.port).name, write=True)
        error = failure(sut)
        assert error.transient
        assert f", pid {os.getpid()}) since" in str(error)
    sut.boot()


@pytest.mark.parametrize("status", ["sleeping", "unknown"])
def test_states_that_cannot_be_reached_are_refused(sut: BoardStrategy, status: str) -> None:
    with pytest.raises(ConfigurationError, match=status):
        sut.transition(status)


def test_a_medium_needs_straps(sut: BoardStrategy) -> None:
    with pytest.raises(ConfigurationError, match="BootModeDriver"):
        sut.select_medium("emmc")
    with pytest.raises(ConfigurationError, match="it has: sd, emmc, ospi"):
        sut.select_medium("floppy")


def test_linux_without_a_shell_driver_says_what_to_add(sut: BoardStrategy) -> None:
    with pytest.raises(ConfigurationError, match="no ShellDriver"):
        sut.transition("linux")
