"""How a board comes to each state of its strategy, by way of a power cycle unless it is there."""

from __future__ import annotations

from typing import Any

from lab.benchmarks.lowpower.modes import SuspendPlan
from lab.errors import ConfigurationError
from lab.strategies.login import identified, log_in
from lab.strategies.provisioning import provision
from lab.strategies.status import Status


def bring(board: Any, status: Status) -> None:
    """Bring a board into a state that it is not in.

    Args:
        board: a `lab.strategies.boardstrategy.BoardStrategy`.

    Raises:
        BoardlabError: by whose fault it failed.
    """
    match status:
        case Status.off:
            board.off()
        case Status.bootloader:
            _bootloader(board)
        case Status.linux:
            _linux(board)
        case Status.provisioned:
            provision(board)
        case Status.ram_linux:
            _ram_linux(board)
        case _:
            wake = board.wake or ("can" if status is Status.partial_io else "uart")
            board.low_power.enter(SuspendPlan(status.name, wake))


def _linux(board: Any) -> None:
    board.bound("shell", "ShellDriver")
    if board.status is Status.partial_io:
        board.low_power.cold_boot()
    elif board.status.asleep:
        board.low_power.wake()
        board.low_power.finish()
        return
    else:
        board.boot()
    log_in(board)
    if board.identity:
        identified(board)


def _ram_linux(board: Any) -> None:
    if board.ram_linux is None:
        raise ConfigurationError(
            "nothing says which Linux shall run in the board's memory: give `boot_from: ram` to a LinuxWriterDriver of the env"
        )
    _bootloader(board)
    board.ram_linux(board)


def _bootloader(board: Any) -> None:
    if board.from_nothing is not None:
        board.from_nothing(board)
        return
    board.off()
    board.switch_on()
    board.interrupt()
