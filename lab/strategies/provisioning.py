"""The state `provisioned` of the strategy: which drivers write which medium, and what the board says when it has booted one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from lab.drivers.provisionprotocol import ProvisionProtocol
from lab.errors import ConfigurationError
from lab.provision.failures import ReleaseMismatchError
from lab.provision.provisioning import Putting, WritableBoard
from lab.provision.releasefile import answer
from lab.provision.writer import Way
from lab.strategies.drivenboard import DrivenBoard
from lab.strategies.hubs import writing


class ProvisionedBoard(WritableBoard, DrivenBoard, Protocol):
    """A board that can be written.

    Attributes:
        putting: what it is to be given; None: nobody said.
        expected: medium -> "uboot" and "kernel" -> the version line of the boot after it was provisioned.
    """

    putting: Putting | None
    expected: Mapping[str, Mapping[str, str]]

    def off(self) -> None:
        """Switch off and verify it."""
        ...

    def boot(self, init: str = "") -> object:
        """Power-cycle and boot to the login prompt."""
        ...


def provision(board: ProvisionedBoard) -> None:
    """Put on the board what it was told (`putting`), and switch it off.

    Raises:
        ConfigurationError: it was told nothing.
        BoardlabError: as of lab.provision.provisioning.Putting.put.
    """
    if board.putting is None:
        raise ConfigurationError(
            "nothing says which release to put on the board: give --lab-provision FILE, or set `strategy.putting` first"
        )
    board.putting.turn = partial(writing, board.board, board.console.local_device, board.putting.say)
    board.expected = {}  # of what was on it before
    board.putting.put(board)
    board.off()


def ways_of(board: ProvisionedBoard) -> dict[str, Way]:
    """Medium -> the way of the first driver of the environment that writes it."""
    found: dict[str, Way] = {}
    for driver in board.target.drivers:
        if isinstance(driver, ProvisionProtocol):
            for medium, way in driver.ways(board).items():
                found.setdefault(medium, way)
    return found


def booted(board: ProvisionedBoard, medium: str, questions: Mapping[str, str]) -> dict[str, str]:
    """Boot from a medium, and ask at the prompt; without a ShellDriver nothing can be asked.

    Returns: "uboot" and "kernel" -> the version line, and name -> answer.

    Raises:
        BoardlabError: it did not boot, or nobody could log in.
    """
    board.select_medium(medium)
    if board.shell is None:
        board.boot()
        return dict(board.software)
    board.off()
    board.transition("linux")
    said = dict(board.software)
    for name, command in questions.items():
        lines, _errors, _status = board.linux.run(f"{command} 2>/dev/null")
        said[name] = answer(name, "\n".join(lines))
    return said


def check_expected(board: ProvisionedBoard) -> None:
    """Make sure that a board which boardlab provisioned has booted what it booted then.

    Raises:
        ReleaseMismatchError: something else.
    """
    for name, line in board.expected.get(board.medium, {}).items():
        now = board.software.get(name, line)
        if now != line:
            raise ReleaseMismatchError(
                f"{board.board} booted another {name} from {board.medium} than after it was provisioned: {now!r} now, {line!r} then. "
                f"Somebody wrote {board.medium} since: provision it again, or: lab provision --forget --env ENV --medium {board.medium}"
            )
