"""Media of simulated boards: an eMMC with two boot partitions, releases that are written to it, and what boots from it then."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field

from lab.errors import BoardTransientError
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.release import Content, Expected, ExtCsd, Part, PartPlace, Release
from lab.provision.writer import Area, Plan, Report, Step, Verified, Writer, WriteTarget
from lab.provision.writers.emmc_boot_partitions import SpareBootWriter

BOARD_TYPE: Final = "am62xx_sk"
EMMC: Final = "emmc"
FACTORY: Final = "factory"
TORN: Final = b"\xff"
_BYTES: Final = 512
LOST: Final = 0.05  # of a write: the medium answers well, and keeps nothing
MISREAD: Final = 0.02  # of a read back: damaged on the way
_WRITE_S: Final = 6.0


def kernel_of(release: str, *, other_build: bool = False) -> str:
    """The kernel's version line of a release, or of another build of it."""
    return f"Linux version of {release}{', another build' if other_build else ''}"


def release_of(folder: Path, name: str, *, other_build: bool) -> Release:
    """A release file and its one part; `other_build`: the part is not what the file says."""
    data = kernel_of(name, other_build=other_build).encode().ljust(_BYTES)
    source = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}.bin"
    if not source.exists():
        source.write_bytes(data)
    part = Part(
        name="tiboot3.bin",
        to=PartPlace(hardware="boot0", offset=0),
        source=str(source),
        sha256=hashlib.sha256(data).hexdigest(),
        size=_BYTES,
    )
    content = Content(parts=[part], extcsd=ExtCsd([1, 1, 0], [2, 0, 0]))
    return Release(name, [BOARD_TYPE], {EMMC: content}, Expected(kernel=f"^{re.escape(kernel_of(name))}$"))


@define(eq=False)
class Emmc:
    """The eMMC of a board.

    Attributes:
        use: is told before each access. sleep: a yield point of so many seconds. happens: an event of that probability.
    """

    use: Callable[[], None]
    sleep: Callable[[float], None]
    happens: Callable[[float], bool]
    parts: dict[str, bytes] = field(factory=lambda: {"boot0": kernel_of(FACTORY).encode(), "boot1": TORN})
    active: int = 1
    accesses: int = 0

    @property
    def line(self) -> str:
        """The version line of what boots; empty: nothing does."""
        data = self.parts[f"boot{self.active - 1}"]
        return "" if data == TORN else data.decode().strip()

    def writer(self) -> Writer:
        """Boardlab's writer of the boot partition that is not in use, over a played one."""
        return SpareBootWriter(PlayedWriter(self), self._settings, self._holds, lambda: None)

    def _settings(self) -> ExtCsd:
        self.access(0.1)
        return ExtCsd([1, self.active, 0], [2, 0, 0])

    def _holds(self, partition: str, area: Area) -> bool:
        self.access(0.1)
        data = self.parts[partition][area.offset : area.offset + area.count]
        return hashlib.sha256(data).hexdigest() == area.sha256

    def access(self, seconds: float) -> None:
        """Take time with the board.

        Raises:
            BoardTransientError: another program switched it meanwhile.
        """
        self.use()
        self.accesses += 1
        mine = self.accesses
        self.sleep(seconds)
        self.use()
        if self.accesses != mine:
            raise BoardTransientError("the board reset", failure="reset")


@define(eq=False)
class PlayedWriter:
    """Writes, reads back and switches an eMMC."""

    emmc: Emmc
    name: str = "played"

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        steps = tuple(Step(part, part.to, _BYTES) for part in content.parts)
        return Plan(self.name, evolve(target, device="mmc 0"), content, steps)

    def write(self, plan: Plan, _report: Report) -> None:
        for step, partition, data in self._pieces(plan):
            self.emmc.use()
            self.emmc.parts[partition] = TORN
            self.emmc.access(_WRITE_S)
            assert step.bytes == len(data)
            if not self.emmc.happens(LOST):
                self.emmc.parts[partition] = data

    def verify(self, plan: Plan) -> Verified:
        self.emmc.access(1.0)
        for _, partition, data in self._pieces(plan):
            if self.emmc.parts[partition] != data or self.emmc.happens(MISREAD):
                raise MediaVerifyFailedError(f"{partition} has something else")
        return Verified("0" * 64, plan.total_bytes)

    def switch(self, plan: Plan) -> str:
        settings = plan.content.extcsd.partconf
        if not settings:
            return ""
        self.emmc.access(0.1)
        self.emmc.active = settings[1]
        return f"boots from boot{settings[1] - 1}"

    @staticmethod
    def _pieces(plan: Plan) -> list[tuple[Step, str, bytes]]:
        return [(step, _place(step), Path(step.file.source).read_bytes()) for step in plan.steps]


def _place(step: Any) -> str:
    return str(step.place.hardware)
