"""Kind of virtual board behind each board type.

Kinds are named, not imported: only the needed one is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lab.errors import ConfigurationError
from lab.virtual.board import BoardKind
from lab.virtual.sim.kind import SimKind
from lab.virtual.sim.model import is_simulated, simulated

if TYPE_CHECKING:
    from lab.virtual.qemu.kind import QemuKind

_MODULE = "lab.virtual.qemu.kind"  # with `of_type`
QEMU = ("qemu-virt", "bpim2u", "sifive_u")  # what it knows


def names() -> list[str]:
    """The board types that there are virtual boards of."""
    return [*QEMU, *simulated()]


def load(board_type: str) -> BoardKind:
    """The kind of a board type.

    Raises:
        ConfigurationError: there is no virtual board of this type.
    """
    if board_type in QEMU:
        return qemu(board_type)
    if is_simulated(board_type):
        return SimKind(board_type)
    raise _unknown(board_type)


def qemu(board_type: str, *, with_tools: bool = False, with_network: bool = False, stock: bool = False) -> QemuKind:
    """The kind of a board type that runs in QEMU.

    Args:
        with_tools, with_network, stock: see `lab.virtual.qemu.kind.of_type`.

    Raises:
        ConfigurationError: there is none, or not such a one.
    """
    if board_type not in QEMU:
        raise _unknown(board_type)
    kind: QemuKind = import_module(_MODULE).of_type(
        board_type, with_tools=with_tools, with_network=with_network, stock=stock
    )
    return kind


def _unknown(board_type: str) -> ConfigurationError:
    return ConfigurationError(f"no virtual board of type {board_type!r}; there are: {', '.join(names())}")
