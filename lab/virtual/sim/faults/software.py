"""Faults of what is on the media: another root file system, other software than before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from attrs import define, evolve, field, validators

from lab.virtual.sim.faults.base import Fault, FaultOutcome

if TYPE_CHECKING:
    from lab.boards import SdkRelease
    from lab.virtual.sim.computer import Computer
    from lab.virtual.sim.setup import SimSetup


@define(kw_only=True, eq=False)
class RootElsewhere(Fault):
    """The kernel comes from the selected medium, and mounts the root file system of another one, read and write.

    Two media with copies of one image have one PARTUUID; the kernel takes the first that answers.
    """

    name: ClassVar[str] = "root_elsewhere"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("mixed_boot",), "lab", transient=True)

    def root(self, medium: str, computer: Computer) -> str:
        """See `FaultHooks`."""
        return next(name for name in computer.model.board.media if name != medium)


@define(kw_only=True, eq=False)
class StockEnvironment(Fault):
    """U-Boot's environment is as TI ships it: SPL comes from the selected medium, and Linux from the SD card all the same."""

    name: ClassVar[str] = "stock_environment"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("mixed_boot",), "lab", transient=True, medium="emmc")

    def setup(self, setup: SimSetup) -> SimSetup:
        """See `FaultHooks`; U-Boot, board/ti/am62x/am62x.env: `mmcdev=1`, whatever the straps."""
        return evolve(setup, stock=True)


@define(kw_only=True, eq=False)
class OtherSoftware(Fault):
    """Somebody writes another kernel (or U-Boot) to the medium between two cycles of a run."""

    name: ClassVar[str] = "other_software"
    outcome: ClassVar[FaultOutcome] = FaultOutcome(("software_changed",), "lab", transient=True, cycle=2)
    what: str = field(default="kernel", validator=validators.in_(("kernel", "uboot")))

    def software(self, release: SdkRelease) -> SdkRelease:
        """See `FaultHooks`."""
        if self.what == "kernel":
            return evolve(release, kernel=f"{release.kernel}-dirty")
        version, _, built = release.uboot.partition(" (")
        return evolve(release, uboot=f"{version}-dirty ({built}")
