"""Releases put on simulated boards in virtual time, from their U-Boot: over TFTP, over USB, or over the console."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from lab.drivers.consoleport import ConsoleLine
from lab.drivers.guarded_calls import UBOOT
from lab.drivers.prompt import Prompt
from lab.drivers.ubootwriterdriver import OverConsole, OverUsb
from lab.errors import BoardlabError
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.release import Content, Expected, ExtCsd, Part, PartPlace, Recovery, Release
from lab.provision.writer import Plan, Verified, WriteProgress, WriteTarget
from lab.provision.writers.uboot import Network, Tftp, UBootWriter
from lab.provision.writers.ubootmedia import parse
from lab.run.board import Status
from lab.virtual.sim.faults.catalogue import Planned
from lab.virtual.sim.network import FolderTftp
from lab.virtual.sim.storage import BOOT_CONFIG
from support.simlab import SimLab
from support.simrecovery import PlayedSnagflash, images
from support.simruns import Told
from support.simtarget import SimClock, strategy_on
from support.strategies import BoardStrategy

BOARD_TYPE, OLD, NEW = "am62xx_sk", "11.01", "10.00"
UBOOT_OF = {"11.01": "2025.01", "10.00": "2024.04"}
TIME_SCALE = 0.05
PLACES = {
    "ospi": {
        "tiboot3.bin": PartPlace(offset=0x0, room=0x80000),
        "tispl.bin": PartPlace(offset=0x80000, room=0x200000),
        "u-boot.img": PartPlace(offset=0x280000, room=0x400000),
    },
    "emmc": {
        "tiboot3.bin": PartPlace(offset=0x0, hardware="boot0", room=0x80000),
        "tispl.bin": PartPlace(offset=0x80000, hardware="boot0", room=0x200000),
        "u-boot.img": PartPlace(offset=0x280000, hardware="boot0", room=0x180000),
    },
}
MEDIA = {"ospi": "sf", "emmc": "mmc 0"}


def content(folder: Path, medium: str, release: str = NEW) -> Content:
    """The boot parts of a release for a medium, as files in a folder."""
    parts = []
    for name, data in images(BOARD_TYPE, release).items():
        path = folder / f"{release}-{name}"
        path.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        parts.append(Part(name=name, to=PLACES[medium][name], source=str(path), sha256=digest))
    return Content(parts=parts, extcsd=ExtCsd([1, 1, 0], [2, 0, 0]) if medium == "emmc" else ExtCsd())


@define(eq=False)
class Provisioning:
    """A board, its strategy, and the way to one of its media.

    Attributes:
        reached: told of every progress; it may raise, as a kill does.
    """

    lab: SimLab
    strategy: BoardStrategy
    folder: Path
    medium: str
    over: str = "tftp"
    reached: Callable[[WriteProgress], None] = lambda _progress: None
    served: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.served = self.folder / "tftp"
        self.served.mkdir(exist_ok=True)
        self.lab.board.network = FolderTftp(self.served)

    def writer(self) -> UBootWriter:
        """The way, as a driver would offer it."""
        loader: Any = Tftp(self.served, Network("192.0.2.1", board="192.0.2.2"))
        if self.over == "console":
            loader = OverConsole(ConsoleLine(self.strategy.console, SimClock(self.lab)), 115200)
        clock = SimClock(self.lab)
        if self.over == "usb":
            line = ConsoleLine(self.strategy.console, clock)
            loader = OverUsb(line, "=> ", "0451:6165", PlayedSnagflash(self.lab), lambda: "snagflash")
        return UBootWriter("uboot", parse(MEDIA[self.medium]), loader, self.begin, self.end, now_ns=clock.now_ns)

    def begin(self) -> Any:
        """U-Boot's prompt, from the SD card, on which nothing is written."""
        self.strategy.select_medium("sd")
        self.strategy.transition("bootloader")
        return Prompt(self.strategy.uboot, UBOOT)

    def end(self) -> None:
        """The next one begins anew."""
        self.strategy.status = Status.unknown

    def provision(self, release: str = NEW) -> Verified:
        """Plan, write, read back, boot, and look who boots.

        Raises:
            BoardlabError: with its class.
        """
        writer = self.writer()
        plan = writer.plan(content(self.folder, self.medium, release), self.target())
        return self.carry_out(writer, plan, release)

    def told(self, release: str = NEW, tries: int = 2) -> list[Told]:
        """Try so often; what a person is told of each try."""
        found = []
        for number in range(1, tries + 1):
            try:
                self.provision(release)
                found.append(Told(1, number, "ok", None, None, ""))
            except BoardlabError as error:
                found.append(Told(1, number, error.failure, error.fault, error.transient, str(error)))
        return found

    def release(self, recovery: Recovery) -> Release:
        """A release file with this recovery set."""
        return Release(
            NEW,
            [BOARD_TYPE],
            {self.medium: content(self.folder, self.medium)},
            Expected(uboot=UBOOT_OF[NEW]),
            recovery=recovery,
        )

    def release_content(self) -> Content:
        """What the new release has for the medium."""
        return content(self.folder, self.medium)

    def target(self) -> WriteTarget:
        """The medium, as an env names it."""
        return WriteTarget("sim-1", BOARD_TYPE, self.medium, MEDIA[self.medium])

    def carry_out(self, writer: UBootWriter, plan: Plan, release: str) -> Verified:
        """All but planning."""
        writer.write(plan, self.reached)
        verified = writer.verify(plan)
        writer.switch(plan)
        if not self.boots(release):
            raise MediaVerifyFailedError("another U-Boot starts than was written")
        return verified

    def boots(self, release: str) -> bool:
        """Whether the medium boots that release's U-Boot."""
        self.strategy.select_medium(self.medium)
        self.strategy.from_nothing = None
        self.strategy.status = Status.unknown
        self.strategy.transition("bootloader")
        said = bytes(self.strategy.console.captured())
        return f"U-Boot {UBOOT_OF[release]}".encode() in said

    def elsewhere(self) -> dict[str, str]:
        """Digests of everything that outlives the power and is not the target: its parts' places and registers."""
        found: dict[str, str] = {}
        partition = 1 if self.medium == "emmc" else 0
        ranges = [(partition, place.offset or 0, 0x40000) for place in PLACES[self.medium].values()]
        for name in self.lab.board.model.board.media:
            medium = self.lab.board.storage.medium(name)
            found |= medium.digests(ranges if name == self.medium else ())
        return found | {"burned": " ".join(self.lab.board.storage.burned)}


@contextmanager
def provisioning(
    folder: Path, medium: str = "ospi", over: str = "tftp", seed: int = 1, fault: Planned | None = None
) -> Iterator[Provisioning]:
    """A board with the old release on it, whose eMMC boots from no partition."""
    made = SimLab(BOARD_TYPE, release=OLD, time_scale=TIME_SCALE, seed=seed)
    made.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] = 0
    if fault is not None:
        made.board.troubles_for = lambda cycle: [fault.fault(cycle)] if fault.strikes(cycle) else []
    with strategy_on(made, mcu=False) as strategy:
        strategy.uboot.prompt = r"(?<!=)=> "
        yield Provisioning(made, strategy, folder, medium, over)
