"""Evidence of a boot's medium and software, and of a quiet kernel."""

from __future__ import annotations

import re
from typing import Final

from attrs import define, evolve, field, frozen

from lab.benchmarks.boot.flows import BootFlow
from lab.benchmarks.boot.kernellog import BootKernelLog
from lab.benchmarks.versions import BootVersions
from lab.boards import BoardType, quiet_flow
from lab.errors import LabTransientError

ROOT = "rootfs"  # the source that names the root file system's device, by the kernel's lines
SHELL = "shell"  # and by what is mounted
_OF_DEVICES = (ROOT, "kernel")  # sources whose words are names of devices, or how they begin
# Without aliases in the device tree, cards are numbered in the order of their probing (Linux
# drivers/mmc/core/{bus,block}.c).
_CARD = re.compile(r"\bmmc(\d+): new (?:.* )?(SD|MMC)\w* card at address ")
_BLOCK = re.compile(r"\b(mmcblk\d+): mmc(\d+):")
_MEDIA_OF_CARDS = {"SD": "sd", "MMC": "emmc"}
FEW_LINES: Final = 40  # a quiet kernel prints its errors
MANY_LINES: Final = 150  # a talking one prints some 370 (public logs of falcon boots of an AM62x)
SPOKEN: Final = frozenset({"first_printk", "init"})  # moments that only a talking kernel prints


@define
class BootEvidence:
    """The medium and software of a boot, by its lines.

    Attributes:
        medium: the selected one.
        seen: source -> the medium that it named.
        software: as of `BootVersions`.
        init: the kernel's `init=`; empty: the default, or unknown.
    """

    board: BoardType
    medium: str
    seen: dict[str, str] = field(factory=dict, init=False)
    software: dict[str, str] = field(factory=dict, init=False)
    init: str = field(default="", init=False)
    _unconfirmed: dict[str, str] = field(factory=dict, init=False)  # source -> what waits to be confirmed
    _cards: dict[str, str] = field(factory=dict, init=False)  # number of a host -> kind of its card
    _blocks: dict[str, str] = field(factory=dict, init=False)  # block device -> number of its host
    _closed: set[str] = field(factory=set, init=False)
    _versions: BootVersions = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._versions = BootVersions(self.software)

    def whole_line(self, line: str) -> LabTransientError | None:
        """Take a console line; return the error of a wrong medium."""
        error = None
        if card := _CARD.search(line):
            self._cards[card[1]] = _MEDIA_OF_CARDS[card[2]]
        if block := _BLOCK.search(line):
            self._blocks[block[1]] = block[2]
        for evidence in self.board.evidence:
            source = evidence.source
            if source in self._closed:
                continue
            match = re.search(evidence.pattern, line)
            if match:
                self._unconfirmed[source] = match[1]
            if source in self._unconfirmed and (not evidence.confirmed_by or re.search(evidence.confirmed_by, line)):
                value = self._unconfirmed.pop(source)
                if evidence.confirmed_by:
                    self._closed.add(source)
                medium = self._medium_of_card(value) if source in _OF_DEVICES else ""
                error = error or self._witness(source, value, medium or evidence.media.get(value))
        match = re.search(r"Kernel command line: (?:.* )?init=(\S+)", line)
        self.init = match[1] if match else self.init
        self._versions.whole_line(line)
        return error

    def root_is_on(self, device: str, card: str) -> LabTransientError | None:
        """Take the root file system's device and card; return a wrong medium's error."""
        if card in _MEDIA_OF_CARDS and (block := re.match(r"mmcblk\d+", device)):
            self._blocks[block[0]], self._cards[block[0]] = block[0], _MEDIA_OF_CARDS[card]
        medium = self.medium_of(device)
        return self._witness(SHELL, device, medium) if medium else None

    def medium_of(self, device: str) -> str:
        """The medium of a kernel's device; empty: unknown to the type."""
        if medium := self._medium_of_card(device):
            return medium
        medium_of_word = {
            word: medium
            for evidence in self.board.evidence
            if evidence.source in _OF_DEVICES
            for word, medium in evidence.media.items()
        }
        words = [word for word in medium_of_word if device.startswith(word)]
        return medium_of_word[max(words, key=len)] if words else ""

    def _medium_of_card(self, device: str) -> str:
        """The medium of a device by its card's kind; empty: unknown."""
        block = next((name for name in self._blocks if re.match(rf"{name}(?!\d)", device)), "")
        medium = self._cards.get(self._blocks.get(block, ""), "")
        return medium if medium in self.board.media else ""

    @property
    def verified(self) -> bool:
        """True if two sources named the medium, the root's device included.

        The root's device counts only if the board type has patterns for it.
        """
        sources = {evidence.source for evidence in self.board.evidence}
        return len(self.seen) >= min(2, len(sources)) and (
            ROOT not in sources or bool({ROOT, SHELL} & self.seen.keys())
        )

    def _witness(self, source: str, value: str, medium: str | None) -> LabTransientError | None:
        """Take a source's word; return the error of a wrong medium.

        Args:
            value: its words.
            medium: the medium that they name; None: the board type does not know them.
        """
        others = {name: other_medium for name, other_medium in self.seen.items() if name != source}
        if medium is not None:
            self.seen[source] = medium
        if medium == self.medium:
            return None
        wrong = f"{source} says {value!r}{f' ({medium})' if medium else ''}"
        if self.medium in others.values():
            named = ", ".join(f"{name} names {other_medium}" for name, other_medium in others.items())
            return LabTransientError(
                f"a mixed boot: {self.medium} was selected, {named}, but {wrong}. The straps are right: U-Boot's "
                "environment loads Linux from elsewhere (printenv boot_targets mmcdev bootpart), or the kernel's "
                "root= names another medium",
                failure="mixed_boot",
            )
        return LabTransientError(
            f"booted from the wrong medium: {self.medium} was selected, {wrong}. Check the boot-mode straps, and "
            f"whether {self.medium} is bootable",
            failure="wrong_medium",
        )


@frozen
class Manner:
    """A flow, named with its kernel's manner (quiet or not).

    Attributes:
        is_sure: the other manner with lost characters would look different.
    """

    flow: BootFlow
    is_sure: bool


def manner(flow: BootFlow, log: BootKernelLog, *, lost: bool) -> Manner:
    """Name a flow with its kernel's manner.

    It stays as it is for a board type without a pattern of a talking kernel.

    Args:
        log: of the whole boot.
        lost: bytes are known to be missing.
    """
    has_sign = any(pattern.name in SPOKEN for pattern in flow.patterns)
    if not has_sign or log.talks or any(moment.name in SPOKEN for moment in flow.order):
        return Manner(flow, is_sure=True)
    if log.stamped > FEW_LINES:
        return Manner(flow, is_sure=log.stamped > MANY_LINES)
    return Manner(evolve(flow, name=quiet_flow(flow.name)), is_sure=not lost)
