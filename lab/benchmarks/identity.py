"""The board's identity and root device, read by its own shell.

Sources: the device tree's `serial-number` (Devicetree Specification, 2.3), the network interfaces' addresses, and
/proc/self/mountinfo (proc(5)). Two boards of a type differ in nothing else that they print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

from lab.errors import LabStableError

_SERIAL = "cat /proc/device-tree/serial-number 2>/dev/null"
_ADDRESSES = "cat /sys/class/net/*/address 2>/dev/null"
_ROOT = "grep ' / / ' /proc/self/mountinfo"
_DEVICE = "cat /sys/dev/block/{numbers}/uevent /sys/dev/block/{numbers}/../device/type 2>/dev/null"
_LOCALLY_ADMINISTERED = 0x02  # of the first octet (IEEE 802-2014, 8.4): chosen by software, perhaps anew at each boot


class Shell(Protocol):
    """The board's shell (labgrid's ShellDriver)."""

    def run(self, cmd: str) -> tuple[Sequence[str], Sequence[str], int]:
        """Run a command; its output by lines, nothing, and its exit status."""
        ...


@frozen
class BoardIdentity:
    """A board's identity from its shell; unknown fields are empty.

    Attributes:
        serial: of the device tree.
        macs: burnt-in addresses of its network interfaces, lower case.
        root: the root file system's device, e.g. "mmcblk1p2" or "ubi0:rootfs".
        card: its kind, "SD" or "MMC" (Linux drivers/mmc/core/bus.c).
    """

    serial: str = ""
    macs: tuple[str, ...] = ()
    root: str = ""
    card: str = ""

    @property
    def names(self) -> frozenset[str]:
        """All names that distinguish this board from others."""
        return frozenset({*self.macs, *({self.serial} if self.serial else ())})

    def document(self) -> dict[str, object]:
        """For the attempt's details."""
        return {"serial": self.serial, "macs": list(self.macs), "root": self.root}


def identify(shell: Shell) -> BoardIdentity:
    """Ask the board; a few short commands."""
    serial = _text(shell, _SERIAL).replace("\0", "").strip()
    addresses = _text(shell, _ADDRESSES).lower().split()
    macs = sorted(
        {
            mac
            for mac in addresses
            if re.fullmatch(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", mac)
            and mac != "00:00:00:00:00:00"
            and not int(mac[:2], 16) & _LOCALLY_ADMINISTERED
        }
    )
    return BoardIdentity(
        serial if re.fullmatch(r"[\x21-\x7e][\x20-\x7e]{0,99}", serial) else "", tuple(macs), *_root(shell)
    )


def from_document(document: object) -> BoardIdentity:
    """The identity from `document`; empty for anything else."""
    if not isinstance(document, Mapping):
        return BoardIdentity()
    macs = document.get("macs")
    return BoardIdentity(
        str(document.get("serial") or ""),
        tuple(str(mac) for mac in macs) if isinstance(macs, list) else (),
        str(document.get("root") or ""),
    )


def check_board(identity: BoardIdentity, board: str, expected: frozenset[str], source: str) -> None:
    """Compare a board's identity with the expected one, if both are known.

    Args:
        source: of `expected`.

    Raises:
        LabStableError: it is another board.
    """
    if (
        identity.names
        and expected
        and not identity.names & {name.lower() for name in expected}
        and not identity.names & expected
    ):
        raise LabStableError(
            f"another board than {board} is on this console: it says {', '.join(sorted(identity.names))}, and "
            f"{source} says {', '.join(sorted(expected))}. Are two consoles swapped? If the board was exchanged, give "
            "the new one a name of its own (BoardStrategy: board), or put its serial number there "
            "(BoardStrategy: identity)",
            failure="wrong_board",
        )


def _root(shell: Shell) -> tuple[str, str]:
    """The device of the last mount at `/`, and the kind of its card.

    A file system without a block device, such as UBIFS, names itself.
    """
    lines = [line for line in _text(shell, _ROOT).splitlines() if " - " in line]
    if not lines:
        return "", ""
    front, _, back = lines[-1].partition(" - ")
    numbers = next((word for word in front.split() if re.fullmatch(r"\d+:\d+", word)), "")
    kind, source = (*back.split(), "", "")[:2]
    if not numbers:
        return "", ""
    if numbers.startswith("0:"):
        return (source if kind == "ubifs" else ""), ""
    text = _text(shell, _DEVICE.format(numbers=numbers))
    match, card = (re.search(pattern, text, re.MULTILINE) for pattern in (r"^DEVNAME=(\S+)", r"^(SD|MMC)$"))
    return match[1] if match else "", card[1] if card else ""


def _text(shell: Shell, command: str) -> str:
    lines, _, _ = shell.run(command)
    return "\n".join(lines)
