"""Which kind of virtual board stands behind a board type. Kinds are named, not imported: only the one asked for is."""

from __future__ import annotations

from importlib import import_module

from lab.errors import ConfigurationError
from virtual.board import BoardKind
from virtual.sim.kind import SimKind
from virtual.sim.model import simulated

_MODULE = "virtual.qemu.kind"  # with `of_type(board_type) -> BoardKind`
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
        kind: BoardKind = import_module(_MODULE).of_type(board_type)
        return kind
    if board_type in simulated():
        return SimKind(board_type)
    raise ConfigurationError(f"no virtual board of type {board_type!r}; there are: {', '.join(names())}")
