"""Writers of media: plan, write, read back, switch.

    plan(content, target) ──> Plan ──> write(plan, progress) ──> verify(plan) ──> switch(plan)
    refuses                            the first byte            digest           what boots

A writer decides everything in `plan`, without later questions. It writes the plan and nothing else.
"""

from __future__ import annotations

import abc
import hashlib
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from attrs import astuple, define, evolve, field, frozen

from lab.provision.errors import WriteStalledError
from lab.provision.release import BOOT_STAGES, Content, ExtCsd, File, Part, PartPlace


@frozen
class Area:
    """Some of what was written to a boot partition.

    Attributes:
        offset: from its start, bytes.
        count: bytes.
        crc32, sha256: of them, hexadecimal.
    """

    offset: int
    count: int
    crc32: str
    sha256: str

    @classmethod
    def of(cls, offset: int, data: bytes) -> Area:
        """These bytes, there."""
        return cls(offset, len(data), f"{zlib.crc32(data):08x}", hashlib.sha256(data).hexdigest())


@frozen
class Spare:
    """The boot partition that a write goes to.

    Attributes:
        boots: it, e.g. "boot1"; empty: the write goes to none, or to both.
        kept: the other one, where the eMMC was set to boot from it before; else empty.
        bus: BOOT_BUS_CONDITIONS with which it booted from `kept`, as [width, reset, mode]; empty: they could not be
            read.
        areas: all that is written to `boots`.
        switched_back: the eMMC boots from `kept` again.
    """

    boots: str = ""
    kept: str = ""
    bus: list[int] = field(factory=list)
    areas: tuple[Area, ...] = ()
    switched_back: bool = False

    @property
    def noted(self) -> dict[str, Any]:
        """`bus` and `areas` as JSON."""
        return {"bus": self.bus, "areas": [list(astuple(area)) for area in self.areas]} if self.boots else {}

    @classmethod
    def of(cls, boots: str, kept: str, noted: Mapping[str, Any]) -> Spare:
        """Of a record."""
        areas = tuple(Area(*area) for area in noted.get("areas", ()))
        return cls(boots, kept, list(noted.get("bus", ())), areas, "switched_back" in noted)


FULL: Final = "full"
CRC32: Final = "crc32"
_SHOWN_EVERY_NS: Final = 500_000_000


@frozen
class WriteTarget:
    """Target of a write, as named by the environment and as found.

    Attributes:
        board: the board's own name.
        board_type: of the environment.
        medium: e.g. "sd".
        device: the writer's name of it, e.g. "/dev/sdb", "mmc 0", "sf".
        identity: e.g. its ID_PATH, serial or CID.
        size_bytes: of it; None: it cannot be asked.
        security: the device's state, "none" where the environment does not say.
        untried: recorded writes to boot partitions that have not booted since, the newest first.
        booted: the boot partitions whose latest release booted, as the record has it.
        host: the other host that has the medium while it is written; empty: this one, or the board.
    """

    board: str
    board_type: str
    medium: str
    device: str = ""
    identity: str = ""
    size_bytes: int | None = None
    security: str = "none"
    untried: tuple[Spare, ...] = ()
    booted: frozenset[str] = frozenset()
    host: str = ""


@frozen
class Step:
    """One write: a file of the release, unpacked, to a place.

    Attributes:
        place: None: an image of the whole medium.
        bytes: unpacked.
    """

    file: File
    place: PartPlace | None
    bytes: int

    @property
    def name(self) -> str:
        """As the log calls it."""
        return self.file.name if isinstance(self.file, Part) else self.file.filename


@frozen
class Plan:
    """Everything that is decided before the first byte.

    Attributes:
        way: the writer's name, e.g. "sd-mux".
        steps: in the order of writing, boot parts last.
        estimate_s: how long it will take at the writer's usual rate; None: nobody knows.
        notes: what a person should know, e.g. how slow it is.
        now: the same for where the board boots from now, if it is written elsewhere; None: it is the same place.
        spare: the boot partition that is switched to.
        before: what makes the medium boot from its `kept` again.
    """

    way: str
    target: WriteTarget
    content: Content
    steps: tuple[Step, ...]
    estimate_s: float | None = None
    notes: tuple[str, ...] = ()
    now: Plan | None = None
    spare: Spare = field(factory=Spare)
    before: ExtCsd = field(factory=ExtCsd)

    @property
    def to_read(self) -> Plan:
        """Plan to read the board's content back without a write.

        Nothing is switched after it.
        """
        current = self.now or self
        return evolve(current, content=evolve(current.content, extcsd=ExtCsd()))

    @property
    def back(self) -> Plan:
        """Plan to `switch` the medium back to the kept boot partition."""
        return evolve(self, content=evolve(self.content, extcsd=self.before))

    @property
    def total_bytes(self) -> int:
        """Of all steps, unpacked."""
        return sum(step.bytes for step in self.steps)


@frozen
class Verified:
    """Result of a read-back.

    Attributes:
        digest: SHA-256 over the compared bytes, in the order of the steps.
        bytes: their number: all written ones, but those that a later step overwrote.
        method: in the word of the record: `FULL`, every byte was compared by its SHA-256 or itself; `CRC32`, by CRC-32
            only.
    """

    digest: str
    bytes: int
    method: str = FULL


@frozen
class WriteProgress:
    """Progress of a write.

    Attributes:
        step: name of the current step.
        done, total: bytes of the whole plan.
        elapsed_ns: since the first byte.
    """

    step: str
    done: int
    total: int
    elapsed_ns: int

    @property
    def rate(self) -> float:
        """Bytes per second since the first byte; 0: not known yet."""
        return self.done * 1e9 / self.elapsed_ns if self.elapsed_ns > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at that rate; None: nobody knows."""
        return max(0, self.total - self.done) / self.rate if self.rate else None


Report: TypeAlias = Callable[[WriteProgress], None]


class Writer(Protocol):
    """Writes a medium; a driver offers it (see `ProvisionProtocol`)."""

    @property
    def name(self) -> str:
        """As plans and records call it."""

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        """Decide everything, and write nothing.

        The plan's target has what was found of it: device, size.

        Raises:
            TargetRefusedError, ImageTooLargeError, WrongImageForBoardError, ConfigurationError: it may not or cannot
                be written.
        """

    def write(self, plan: Plan, report: Report) -> None:
        """Write the steps of a plan, in their order.

        Raises:
            BoardlabError: with one of the classes of lab.provision.errors. The board is then recovered by the next try.
        """

    def verify(self, plan: Plan) -> Verified:
        """Read back the plan's bytes from their places.

        If `switch` has work to do, the board stays as it is for it.

        Raises:
            MediaVerifyFailedError: other bytes were read.
        """

    def switch(self, plan: Plan) -> str:
        """Make the board boot the verified content, if a setting is needed.

        An eMMC has such a setting (`extcsd`); other media need nothing.

        Returns: a sentence about settings that could not be read back; empty: none.

        Raises:
            BoardlabError: the medium does not confirm; `ExtCsdNotSetError`: it reads back something else.
        """


@define
class Meter:
    """Counts written bytes and reports them at a readable rate.

    Attributes:
        now_ns: a monotonic clock, e.g. `lab.host.clock.MonotonicRaw().now_ns`.
        stall_s: so long without a byte is a stall; infinite where each command has its own limit.
    """

    total: int
    report: Report
    now_ns: Callable[[], int]
    stall_s: float = math.inf
    _step: str = ""
    _done: int = 0
    _began_ns: int = field(init=False)
    _moved_ns: int = field(init=False)
    _shown_ns: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began_ns = self._moved_ns = self.now_ns()
        self._shown_ns = self._began_ns - _SHOWN_EVERY_NS

    def begin(self, step: str) -> None:
        """The next step begins."""
        self._step, self._moved_ns = step, self.now_ns()
        self._tell()

    def add(self, count: int) -> None:
        """So many bytes more were written."""
        self._done += count
        self._moved_ns = now = self.now_ns()
        if now - self._shown_ns >= _SHOWN_EVERY_NS or self._done >= self.total:
            self._tell()

    def waiting(self) -> None:
        """Restart the stall timer: the medium has nothing to do.

        For example, a long hole of a packed image is unpacked.
        """
        self._moved_ns = self.now_ns()

    def check(self) -> None:
        """To be called while nothing moves.

        Raises:
            WriteStalledError: for too long.
        """
        if self.now_ns() - self._moved_ns > self.stall_s * 1e9:
            raise WriteStalledError(
                f"{self._step}: nothing was written for {self.stall_s:g} s, after {self._done} of {self.total} bytes; "
                "the write was ended. Try again; if it stalls at the same place, change the card, or look at the "
                "cable and the reader"
            )

    def _tell(self) -> None:
        self._shown_ns = self.now_ns()
        self.report(WriteProgress(self._step, self._done, self.total, self._shown_ns - self._began_ns))


def order(parts: Iterable[Part]) -> list[Part]:
    """Sort the parts for writing: boot stages last, the first one finally.

    So a write that ends early leaves a board that does not start half a system, or that still starts the old first
    stage.
    """
    return sorted(parts, key=lambda part: _rank(part) if part.is_boot else -1)


def _rank(part: Part) -> int:
    name = part.name.lower()
    return next((rank for rank, stage in enumerate(BOOT_STAGES) if name.startswith(stage)), len(BOOT_STAGES))


def rooms(content: Content, size_bytes: int | None = None) -> dict[str, int | None]:
    """Free bytes of each part up to the next; None: unknown.

    Args:
        size_bytes: of the medium.
    """
    free_bytes: dict[str, int | None] = {}
    for part in content.parts:
        to = part.to
        after = [
            other.to.offset - to.offset
            for other in content.parts
            if to.offset is not None
            and other.to.offset is not None
            and other.to.hardware == to.hardware
            and other.to.offset > to.offset
        ]
        if to.offset is not None and to.hardware == "user" and size_bytes is not None:
            after.append(size_bytes - to.offset)
        free_bytes[part.name] = min([*after, *([to.room] if to.room is not None else [])], default=None)
    return free_bytes


def inside(content: Content, image_bytes: int) -> list[Part]:
    """Parts that overwrite some of the content's image.

    Parts by offset may lie in it; the place of an MTD part is unknown, so it counts.
    """
    if content.image is None:
        return []
    return [
        part
        for part in content.parts
        if part.to.mtd or (part.to.hardware == "user" and part.to.offset is not None and part.to.offset < image_bytes)
    ]


def inside_reason(part: Part) -> str:
    """Reason to refuse such a part on a flash memory."""
    return (
        f"{part.name} ({part.to.label}) lies inside the image: a flash memory is erased in blocks, so the part would "
        "take some of the image with it, and neither could be read back. Put it behind the image, or leave one of "
        "them out"
    )


class ProvisionProtocol(abc.ABC):
    """A driver that writes media.

    `lab provision` asks those of an environment in their order; the first that offers a medium writes it.
    """

    @abc.abstractmethod
    def writers(self, strategy: Any) -> Mapping[str, Writer]:
        """Map each medium to its writer.

        Nothing is switched or opened yet.

        Args:
            strategy: the board's BoardStrategy, whose power, medium, U-Boot and Linux a writer may use (`transition`,
                `select_medium`, `interrupt`). When a writer ends, well or not, its status is `unknown` or `off`.
        """
