"""A release that reads back well and does not boot, put on a simulated board's eMMC as `lab provision` does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field

from lab.drivers.guarded_calls import UBOOT
from lab.drivers.prompt import Prompt
from lab.errors import BoardlabError
from lab.provision.history import Provision, ProvisionBook
from lab.provision.provisioning import MediumResult, Provisioner
from lab.provision.release import Content, Expected, Release
from lab.provision.writer import Writer
from lab.provision.writers.emmc_boot_partitions import from_uboot
from lab.results import open_store
from lab.run.board import Status
from lab.virtual.sim.storage import BOOT_CONFIG
from support.simcuts import ENDS, KilledError
from support.simprovision import BOARD_TYPE, NEW, UBOOT_OF, Provisioning, content, provisioning

FROM_BOOT0: Final = 0x48
DEAD: Final = ("tiboot3.bin", "tispl.bin", "u-boot.img")


def dead(folder: Path, part: str, release: str = NEW) -> Content:
    """The parts of a release, one of which was built wrong: its digest is that of the release file, and nothing starts it."""
    given = content(folder, "emmc", release)
    return evolve(given, parts=[_dead(folder, each) if each.name == part else each for each in given.parts])


def _dead(folder: Path, part: Any) -> Any:
    data = bytearray(Path(part.source).read_bytes())
    data[-1] ^= 1
    path = folder / f"dead-{part.name}"
    path.write_bytes(data)
    return evolve(part, source=str(path), sha256=hashlib.sha256(data).hexdigest())


@define(eq=False)
class Emmc:
    """A board, the record of what was put on it, and what was said.

    Attributes:
        starts: the media that U-Boot is started from to write; None: the one that is selected.
        fails: what happens when U-Boot's prompt is asked for, e.g. it raises.
        media: in the order of writing. others: the ways to those that are not the eMMC.
    """

    made: Provisioning
    book: ProvisionBook
    starts: str | None = "sd"
    fails: Callable[[], None] = lambda: None
    media: Sequence[str] = ("emmc",)
    others: Mapping[str, Writer] = field(factory=dict)
    said: list[str] = field(factory=list)

    def put(self, given: Content, release: str = NEW, expected: str = "") -> list[MediumResult]:
        """As `lab provision` does: plan, write, read back, switch, boot, compare."""
        strategy = self.made.strategy
        strategy.status, strategy.writers = Status.unknown, self.writers
        strategy.select_medium("sd")
        file = Release(
            release, [BOARD_TYPE], dict.fromkeys(self.media, given), Expected(uboot=expected or UBOOT_OF[release])
        )
        return Provisioner(file, self.media, self.made.reached, self.said.append, self.book).put(strategy)

    def writers(self) -> Mapping[str, Writer]:
        """Of the board."""
        return {**self.others, "emmc": from_uboot(evolve(self.made.writer(), begin=self._begin), 0)}

    def record(self) -> Provision:
        """Of the eMMC, the latest."""
        return self.book.current("sim-1")["emmc"]

    def boots_from(self) -> int:
        """BOOT_PARTITION_ENABLE."""
        return self.made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] >> 3 & 7

    def boots(self, release: str) -> bool:
        """Whether the eMMC comes to that release's U-Boot."""
        try:
            return self.made.boots(release)
        except BoardlabError:
            return False
        finally:
            self.made.end()

    def area(self, number: int) -> str:
        """The digest of a boot partition, 1 or 2."""
        return self.made.lab.board.storage.medium("emmc").space(number).digest()

    def _begin(self) -> Any:
        self.fails()
        strategy = self.made.strategy
        if strategy.status is not Status.bootloader:
            if self.starts is not None:
                strategy.select_medium(self.starts)
            strategy.transition("bootloader")
        return Prompt(strategy.uboot, UBOOT)


@contextmanager
def old_board(folder: Path) -> Iterator[Emmc]:
    """A board whose eMMC boots the old release from boot0."""
    with open_store(str(folder / "r.db")) as store, provisioning(folder, "emmc") as made:
        made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] = FROM_BOOT0
        yield Emmc(made, ProvisionBook(store))


def duration_ns(folder: Path) -> tuple[int, int]:
    """From the first question to the end of a provisioning with what does not boot, in virtual time."""
    with old_board(folder) as emmc:
        began_ns = emmc.made.lab.now_ns
        with suppress(BoardlabError):
            emmc.put(dead(folder, "u-boot.img"))
        return began_ns, emmc.made.lab.now_ns


def cut(folder: Path, at_ns: int, end: str) -> None:
    """Cut a provisioning with what does not boot short at that time; the board boots the old release still, and the next try puts a good one on it."""
    with old_board(folder) as emmc:
        before, struck = emmc.area(1), list[str]()

        def strike() -> None:
            struck.append(end)
            ENDS[end](emmc.made)

        emmc.made.lab.strike_ns, emmc.made.lab.strike = at_ns, strike
        try:
            emmc.put(dead(folder, "u-boot.img"))
        except KilledError:
            if record := emmc.book.current("sim-1").get("emmc"):  # who is killed writes nothing more
                emmc.book._change(record.id, lambda row: setattr(row, "state", "writing"))
        except BoardlabError:
            pass
        else:
            raise AssertionError("it booted")
        assert struck == [end]
        assert emmc.area(1) == before, "the old release is overwritten"
        if emmc.boots_from() != 1:
            record = emmc.record()
            assert (record.boots, record.kept, record.state != "booted") == ("boot1", "boot0", True)
        emmc.put(content(folder, "emmc", NEW))
        assert (emmc.record().state, emmc.boots_from(), emmc.area(1)) == ("booted", 2, before)
        assert emmc.boots(NEW)
