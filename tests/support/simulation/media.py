"""Media of simulated boards: an eMMC with two boot partitions, a card, releases that are written to them, and what boots then."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field

from lab.provision.errors import MediaVerifyFailedError
from lab.provision.release import Content, Expected, ExtCsd, Part, PartPlace, Release
from lab.provision.writer import Area, Plan, Report, Step, Verified, Writer, WriteTarget
from lab.provision.writers.emmc_boot_partitions import SpareBootWriter

BOARD_TYPE: Final = "am62xx_sk"
EMMC: Final = "emmc"
CARD: Final = "sd"
FACTORY: Final = "factory"
TORN: Final = b"\xff"
RIGHT, OTHER, HANGS = "", ", another build", ", which hangs"  # builds of a release
_BYTES: Final = 512
_CACHED: Final = 2
# Of a write that the medium answers well: kept, lost, or kept until the power is cut; of usual media, and of worn ones.
FATES: Final = ((0.9, 0.05, 0.05), (0.3, 0.05, 0.65))
MISREAD: Final = 0.02  # of a read back: damaged on the way
LIES: Final = 0.3  # of a read back of something else: the medium answers what it was given
_WRITE_S: Final = 6.0


def kernel_of(release: str) -> str:
    """The kernel's version line of a release."""
    return f"Linux version of {release}"


def release_of(folder: Path, name: str, builds: Mapping[str, str]) -> Release:
    """A release file with one part for each medium.

    Args:
        builds: medium -> RIGHT, or how its part is not what the file says.
    """
    contents = {medium: _content(folder, name, medium, builds.get(medium, RIGHT)) for medium in (EMMC, CARD)}
    return Release(name, [BOARD_TYPE], contents, Expected(kernel=f"^{re.escape(kernel_of(name))}$"))


def _boots(data: bytes) -> bool:
    return data != TORN and HANGS.encode() not in data


def _content(folder: Path, name: str, medium: str, build: str) -> Content:
    data = (kernel_of(name) + build).encode().ljust(_BYTES)
    source = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}.bin"
    if not source.exists():
        source.write_bytes(data)
    part = Part(
        name="tiboot3.bin",
        to=PartPlace(hardware="boot0" if medium == EMMC else "user", offset=0),
        source=str(source),
        sha256=hashlib.sha256(data).hexdigest(),
        size=_BYTES,
    )
    return Content(parts=[part], extcsd=ExtCsd([1, 1, 0], [2, 0, 0]) if medium == EMMC else ExtCsd())


@define(eq=False)
class Medium:
    """A medium of a board.

    Attributes:
        use: is told before each access. access: takes so many seconds with the board. pick: its fate, by the schedule.
        parts: its partitions. cached: what it answers of some, until the power is cut.
        doubtful: partitions that read back as something else than they keep, and have not booted since.
        fates: weights of a write's.
    """

    use: Callable[[], None]
    access: Callable[[float], None]
    pick: Callable[[Sequence[float]], int]
    parts: dict[str, bytes] = field(factory=lambda: {"user": kernel_of(FACTORY).encode()})
    cached: dict[str, bytes] = field(factory=dict)
    doubtful: set[str] = field(factory=set)
    fates: Sequence[float] = FATES[0]

    @property
    def line(self) -> str:
        """The version line of what boots; empty: nothing does."""
        data = self.parts[self.boots]
        return data.decode().strip() if _boots(data) else ""

    @property
    def boots(self) -> str:
        """The partition that boots."""
        return "user"

    @property
    def is_torn(self) -> bool:
        """True if a partition boots that was not written whole."""
        return self.parts[self.boots] == TORN

    @property
    def is_lost(self) -> bool:
        """True if no partition has something that boots."""
        return not any(map(_boots, self.parts.values()))

    def read(self, partition: str) -> bytes:
        """The bytes that a read brings."""
        return self.cached.get(partition, self.parts[partition])

    def write(self, partition: str, data: bytes) -> None:
        """Write a partition, which is torn meanwhile."""
        self.use()
        before, self.parts[partition] = self.parts[partition], TORN
        self.cached.pop(partition, None)
        self.doubtful.discard(partition)
        self.access(_WRITE_S)
        fate = self.pick(self.fates)
        if fate == 0:
            self.parts[partition] = data
        if fate == _CACHED:  # what is read back is right, and gone at the next boot
            self.parts[partition], self.cached[partition] = before, data
            self.doubtful.add(partition)

    def cut_power(self) -> None:
        """Forget what was not kept."""
        self.cached.clear()

    def writer(self) -> Writer:
        """Boardlab's writer of it."""
        return PlayedWriter(self)


@define(eq=False)
class Emmc(Medium):
    """The eMMC of a board."""

    active: int = 1

    def __attrs_post_init__(self) -> None:
        self.parts = {"boot0": kernel_of(FACTORY).encode(), "boot1": TORN}

    @property
    def boots(self) -> str:
        return f"boot{self.active - 1}"

    def writer(self) -> Writer:
        """Boardlab's writer of the boot partition that is not in use, over a played one."""
        return SpareBootWriter(PlayedWriter(self), self._settings, self._holds, lambda: None)

    def _settings(self) -> ExtCsd:
        self.access(0.1)
        return ExtCsd([1, self.active, 0], [2, 0, 0])

    def _holds(self, partition: str, area: Area) -> bool:
        self.access(0.1)
        data = self.read(partition)[area.offset : area.offset + area.count]
        return hashlib.sha256(data).hexdigest() == area.sha256


@define(eq=False)
class PlayedWriter:
    """Writes, reads back and switches a medium."""

    medium: Medium
    name: str = "played"

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        steps = tuple(Step(part, part.to, _BYTES) for part in content.parts)
        return Plan(self.name, evolve(target, device="mmc 0"), content, steps)

    def write(self, plan: Plan, _report: Report) -> None:
        for partition, data in self._pieces(plan):
            self.medium.write(partition, data)

    def verify(self, plan: Plan) -> Verified:
        self.medium.access(1.0)
        for partition, data in self._pieces(plan):
            if self.medium.pick((1.0 - MISREAD, MISREAD)):
                raise MediaVerifyFailedError(f"{partition} is damaged on the way")
            if self.medium.read(partition) != data:
                if not self.medium.pick((1.0 - LIES, LIES)):
                    raise MediaVerifyFailedError(f"{partition} has something else")
                self.medium.doubtful.add(partition)
        return Verified("0" * 64, plan.total_bytes)

    def switch(self, plan: Plan) -> str:
        settings = plan.content.extcsd.partconf
        if not settings:
            return ""
        self.medium.access(0.1)
        assert isinstance(self.medium, Emmc)
        self.medium.active = settings[1]
        return f"boots from boot{settings[1] - 1}"

    @staticmethod
    def _pieces(plan: Plan) -> list[tuple[str, bytes]]:
        return [(_place(step), Path(step.file.source).read_bytes()) for step in plan.steps]


def _place(step: Any) -> str:
    return str(step.place.hardware)
