"""An eMMC has two boot partitions: the one that the board does not boot from is written and read back, and then the eMMC is switched to it.

So a write that ends early or goes wrong, whenever it does, leaves a board that boots as before; the next try writes the same partition. A flash has no second place: its first stage is written
last, and a board whose write was cut short is recovered from another medium, over UART or over USB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from lab.provision.release import Content, ExtCsd
from lab.provision.way import Plan, Report, Step, Target, Verified, Way
from lab.provision.ways import linuxemmc
from lab.provision.ways import ubootanswers as answers
from lab.provision.ways.command import Command, carry_out
from lab.provision.ways.linux import LinuxWay
from lab.provision.ways.uboot import UbootWay
from lab.provision.ways.ubootmedia import HARDWARE

_BOOT: Final = {name: number for name, number in HARDWARE.items() if number}
_NAMES: Final = {number: name for name, number in _BOOT.items()}
_ENABLED: Final = re.compile(r"BOOT_PARTITION_ENABLE: (0x[0-9a-fA-F]+)")


def boot_partition(content: Content) -> str:
    """The boot partition that all of a content's parts for one go to, where the content also switches to it; else empty."""
    used = {part.to.hardware for part in content.parts} & set(_BOOT)
    switched = content.extcsd.partconf[1:2]
    return used.pop() if len(used) == 1 and [_BOOT[next(iter(used))]] == switched else ""


def moved(content: Content, partition: str) -> Content:
    """The same content for the other boot partition, and the switch to that."""
    ack, _, access = content.extcsd.partconf
    parts = [
        evolve(part, to=evolve(part.to, hardware=partition)) if part.to.hardware in _BOOT else part
        for part in content.parts
    ]
    return evolve(content, parts=parts, extcsd=ExtCsd([ack, _BOOT[partition], access], content.extcsd.bootbus))


@frozen
class SpareBootWay:
    """A way to an eMMC that keeps the boot partition that the board boots from.

    Attributes:
        boots_from: asks the board for that partition, "boot0" or "boot1"; empty: it boots from none.
        end: of the way, after a question that failed.
    """

    way: Way
    boots_from: Callable[[], str]
    end: Callable[[], None]

    @property
    def name(self) -> str:
        """See `lab.provision.way.Way`."""
        return self.way.name

    def plan(self, content: Content, target: Target) -> Plan:
        """See `lab.provision.way.Way`; the plan's content is that which is written, its `now` lies where the board boots from."""
        used = boot_partition(content)
        if not used:
            return self.way.plan(content, target)
        try:
            booted = self.boots_from()
            spare, kept = ("boot1", "boot0") if booted == "boot0" else ("boot0", "boot1")
            made = self.way.plan(moved(content, spare), target)
        except BaseException:
            self.end()
            raise
        there = evolve(made, content=moved(content, kept), steps=tuple(_at(step, kept) for step in made.steps))
        note = f"the boot parts go to {spare}, and {kept} keeps what it has"
        return evolve(made, notes=(*made.notes, note), now=there if booted else None)

    def write(self, plan: Plan, report: Report) -> None:
        """See `lab.provision.way.Way`."""
        self.way.write(plan, report)

    def verify(self, plan: Plan) -> Verified:
        """See `lab.provision.way.Way`."""
        return self.way.verify(plan)

    def switch(self, plan: Plan) -> None:
        """See `lab.provision.way.Way`."""
        self.way.switch(plan)


def from_uboot(way: UbootWay, number: int) -> SpareBootWay:
    """The same from U-Boot. number: U-Boot's, of the eMMC."""

    def boots_from() -> str:
        text = f"mmc partconf {number}"
        lines = carry_out(way.begin(), Command(text, answers.says(_ENABLED.pattern, text)))
        found = _ENABLED.search("\n".join(lines))
        return _NAMES.get(int(found[1], 16), "") if found else ""

    return SpareBootWay(way, boots_from, way.end)


def from_linux(way: LinuxWay) -> SpareBootWay:
    """The same from Linux."""
    return SpareBootWay(way, lambda: linuxemmc.boots_from(way.begin(), way.device), way.end)


def _at(step: Step, partition: str) -> Step:
    place = step.place
    return evolve(step, place=evolve(place, hardware=partition)) if place and place.hardware in _BOOT else step
