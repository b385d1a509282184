"""Faults of media while a release is written, and of their software."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from attrs import define, evolve, field, validators

from lab.virtual.sim import firmware
from lab.virtual.sim.faults.base import Fault, FaultOutcome, for_ever
from lab.virtual.sim.program import CpuResetError, Pause, Program
from lab.virtual.sim.storage import BOOT_CONFIG

if TYPE_CHECKING:
    from lab.boards import SdkRelease
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.setup import SimSetup


def _provision(failure: str, fault: str = "board", *, transient: bool = True, medium: str = "ospi") -> FaultOutcome:
    return FaultOutcome((failure,), fault, transient=transient, trial="provision", medium=medium)


@define(kw_only=True, eq=False)
class BadBlock(Fault):
    """A block of the medium cannot be written or erased any more.

    Attributes:
        at_byte: where, in the area that is written.
    """

    name: ClassVar[str] = "bad_block"
    outcome: ClassVar[FaultOutcome] = _provision("media_write_failed")
    at_byte: int = field(default=0x80000, validator=validators.ge(0))

    def spoils(self, medium: str, offset: int, size: int) -> bool:
        return offset <= self.at_byte < offset + size


@define(kw_only=True, eq=False)
class CardProtected(Fault):
    """The medium is write-protected: a card's slider, or a flash's WP pin."""

    name: ClassVar[str] = "card_protected"
    outcome: ClassVar[FaultOutcome] = _provision("media_write_protected", transient=False, medium="emmc")

    def protects(self, medium: str) -> bool:
        return True


@define(kw_only=True, eq=False)
class SmallMedium(Fault):
    """The medium is smaller than what shall go on it."""

    name: ClassVar[str] = "small_medium"
    outcome: ClassVar[FaultOutcome] = _provision("image_too_large", "configuration", transient=False)
    bytes_: int = field(default=0x40000, validator=validators.ge(0), alias="bytes_")

    def capacity(self, medium: str, size: int) -> int:
        return min(size, self.bytes_)


@define(kw_only=True, eq=False)
class _Struck(Fault):
    """It strikes at a share of the writes of this power cycle.

    Attributes:
        at_write: at which piece of a write, from 1.
    """

    at_write: int = field(default=3, validator=validators.ge(1))
    _writes: int = field(default=0, init=False)

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point != "uboot.write":
            return
        self._writes += 1
        if self._writes == self.at_write:
            yield from self._strike(computer)

    def _strike(self, computer: Computer) -> Program[None]:
        raise NotImplementedError


@define(kw_only=True, eq=False)
class SilentWrongData(Fault):
    """A byte is written wrong without an error."""

    name: ClassVar[str] = "silent_wrong_data"
    outcome: ClassVar[FaultOutcome] = _provision("media_verify_failed")
    _done: bool = field(default=False, init=False)

    def garbles_written(self, medium: str, offset: int, size: int) -> Sequence[int]:
        if self._done:
            return ()
        self._done = True
        return (self.dice.randrange(min(size, 4096)),)


@define(kw_only=True, eq=False)
class ReadBackWrong(Fault):
    """Good data reads back wrong: a weak cell, or a bad line."""

    name: ClassVar[str] = "read_back_wrong"
    outcome: ClassVar[FaultOutcome] = _provision("media_verify_failed")

    def garbles_read(self, medium: str, offset: int, size: int) -> Sequence[int]:
        return (self.dice.randrange(min(size, 4096)),)


@define(kw_only=True, eq=False)
class ExtCsdKept(Fault):
    """The eMMC reports success and stays at its boot partition."""

    name: ClassVar[str] = "extcsd_kept"
    outcome: ClassVar[FaultOutcome] = _provision("extcsd_not_set", transient=False, medium="emmc")

    def keeps(self, register: int, old: int, new: int) -> int:
        """Keep the boot partition; the access bits change."""
        return old & ~7 | new & 7 if register == BOOT_CONFIG else old


@define(kw_only=True, eq=False)
class WriteStalls(_Struck):
    """A write makes no progress any more."""

    name: ClassVar[str] = "write_stalls"
    outcome: ClassVar[FaultOutcome] = _provision("write_stalled", "lab")

    def _strike(self, computer: Computer) -> Program[None]:
        yield from for_ever()


@define(kw_only=True, eq=False)
class WriteSlow(Fault):
    """The medium is worn: each piece takes some seconds more."""

    name: ClassVar[str] = "write_slow"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="provision", medium="ospi")
    seconds: float = field(default=2.0, validator=validators.ge(0.0))

    def at(self, point: str, computer: Computer) -> Program[None]:
        if point == "uboot.write":
            yield Pause(round(self.seconds * 1e9 * computer.time_scale))


@define(kw_only=True, eq=False)
class ResetInWrite(_Struck):
    """The processor resets in the middle of a write."""

    name: ClassVar[str] = "reset_in_write"
    outcome: ClassVar[FaultOutcome] = _provision("write_stalled", "lab")

    def _strike(self, computer: Computer) -> Program[None]:
        yield Pause(0)
        raise CpuResetError


@define(kw_only=True, eq=False)
class PowerLostInWrite(_Struck):
    """The board loses its power during a write, until the next power-on."""

    name: ClassVar[str] = "power_lost_in_write"
    outcome: ClassVar[FaultOutcome] = _provision("write_stalled", "lab")

    def _strike(self, computer: Computer) -> Program[None]:
        computer.enter("dark")
        yield from for_ever()

    def to_host(self, uart: str, data: bytes, now_ns: int) -> bytes:
        return b"" if self._writes >= self.at_write else data


@define(kw_only=True, eq=False)
class TftpSilent(Fault):
    """The network does not answer U-Boot's request for a file."""

    name: ClassVar[str] = "tftp_silent"
    outcome: ClassVar[FaultOutcome] = _provision("tftp_timeout", "lab")

    def fetches(self, path: str) -> bool:
        return False


@define(kw_only=True, eq=False)
class TftpSlow(Fault):
    """The network is full: files come a hundred times slower."""

    name: ClassVar[str] = "tftp_slow"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(trial="provision", medium="ospi")

    def network_rate(self, bytes_s: float) -> float:
        return bytes_s / 100


@define(kw_only=True, eq=False)
class TftpCut(Fault):
    """A file comes over the network without its end."""

    name: ClassVar[str] = "tftp_cut"
    outcome: ClassVar[FaultOutcome] = _provision("tftp_timeout", "lab")

    def fetched(self, path: str, data: bytes) -> bytes:
        return data[: len(data) // 2]


@define(kw_only=True, eq=False)
class TftpGarbled(Fault):
    """A byte of a file changes behind UDP's checksum."""

    name: ClassVar[str] = "tftp_garbled"
    outcome: ClassVar[FaultOutcome] = _provision("media_verify_failed")

    def fetched(self, path: str, data: bytes) -> bytes:
        place = self.dice.randrange(len(data))
        return data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]


@define(kw_only=True, eq=False)
class WrongImage(Fault):
    """A file from the network is another board type's, rightly named."""

    name: ClassVar[str] = "wrong_image"
    outcome: ClassVar[FaultOutcome] = _provision("media_verify_failed")

    def fetched(self, path: str, data: bytes) -> bytes:
        image = firmware.look_at(data)
        if image is None:
            return data[::-1]
        return firmware.make(image.part, "another", image.release, image.size, image.device)[: len(data)].ljust(
            len(data)
        )


# --- Faults of the media's content ---


@define(kw_only=True, eq=False)
class RootElsewhere(Fault):
    """The kernel mounts another medium's root file system for writing.

    Two media with copies of one image have one PARTUUID; the kernel takes the first that answers.
    """

    name: ClassVar[str] = "root_elsewhere"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("mixed_boot",), "lab", transient=True)

    def root(self, medium: str, computer: Computer) -> str:
        return next(name for name in computer.model.board.media if name != medium)


@define(kw_only=True, eq=False)
class StockEnvironment(Fault):
    """TI's own U-Boot environment loads Linux from the SD card.

    SPL comes from the selected medium.
    """

    name: ClassVar[str] = "stock_environment"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("mixed_boot",), "lab", transient=True, medium="emmc")

    def setup(self, setup: SimSetup) -> SimSetup:
        """Select the stock environment.

        Source: U-Boot, board/ti/am62x/am62x.env: `mmcdev=1`.
        """
        return evolve(setup, stock=True)


@define(kw_only=True, eq=False)
class OtherSoftware(Fault):
    """The medium gets another kernel or U-Boot between two cycles."""

    name: ClassVar[str] = "other_software"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("software_changed",), "lab", transient=True, cycle=2)
    what: str = field(default="kernel", validator=validators.in_(("kernel", "uboot")))

    def software(self, release: SdkRelease) -> SdkRelease:
        if self.what == "kernel":
            return evolve(release, kernel=f"{release.kernel}-dirty")
        version, _, built = release.uboot.partition(" (")
        return evolve(release, uboot=f"{version}-dirty ({built}")
