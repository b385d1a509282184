"""Writer of the eMMC boot partition that is not in use.

An eMMC has two: the one that the board does not boot from is written and read back, and then the eMMC is switched to
it.

So a failed write leaves a board that boots as before; the next try writes the same partition. A partition that did not
boot is switched back (lab.provision.provisioning); if that failed, the next try does it before it writes. The record
identifies such a release, with the partition's content once it was switched back from: another one may have replaced
it since. A medium may lose what was read back well, so content alone proves nothing. A flash has no second place:
its first stage is written last, and a board with a broken one is recovered from another medium, over UART or over USB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from lab.provision.image import Hosts
from lab.provision.release import Content, ExtCsd
from lab.provision.writer import Area, Plan, Report, Spare, Verified, Writer, WriteTarget
from lab.provision.writers import linuxemmc, planning, ubootemmc
from lab.provision.writers.command import ending_on_error
from lab.provision.writers.linux import LinuxWriter
from lab.provision.writers.uboot import UBootWriter
from lab.provision.writers.ubootmedia import BLOCK_BYTES, HARDWARE

_BOOT: Final = {name: number for name, number in HARDWARE.items() if number}
_NAMES: Final = {number: name for name, number in _BOOT.items()}
_AREA_BYTES: Final = 1 << 20  # fits into every board's memory


def boot_partition(content: Content) -> str:
    """Boot partition of all boot parts, if the content switches to it.

    Else empty.
    """
    used = {part.to.hardware for part in content.parts} & set(_BOOT)
    switched = content.extcsd.partconf[1:2]
    return used.pop() if len(used) == 1 and [_BOOT[next(iter(used))]] == switched else ""


def move_boot_parts(content: Content, partition: str) -> Content:
    """Move a content and its switch to the other boot partition."""
    ack, _, access = content.extcsd.partconf
    parts = [
        evolve(part, to=evolve(part.to, hardware=partition)) if part.to.hardware in _BOOT else part
        for part in content.parts
    ]
    return evolve(content, parts=parts, extcsd=ExtCsd([ack, _BOOT[partition], access], content.extcsd.bootbus))


@frozen
class SpareBootWriter:
    """Writes an eMMC without touching the boot partition in use.

    That partition stays until the other one has booted.

    Attributes:
        boots: asks the board for its eMMC's boot settings.
        holds: compares an area of a boot partition.
        end: ends the writer after a failed question.
        hosts: that the release's files may come from.
    """

    writer: Writer
    boots: Callable[[], ExtCsd]
    holds: Callable[[str, Area], bool]
    end: Callable[[], None]
    hosts: Hosts | None = None

    @property
    def name(self) -> str:
        return self.writer.name

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        """Plan for the spare boot partition; `now` covers the active one."""
        if not boot_partition(content):
            return self.writer.plan(content, target)
        with ending_on_error(self.end):
            settings = self.boots()
            active = _NAMES.get(settings.partconf[1], "")
            untried = next(
                (spare for spare in target.untried if spare.boots == active and self._is_untried(spare)), None
            )
            boots = active if untried else "boot1" if active == "boot0" else "boot0"
            plan = self.writer.plan(move_boot_parts(content, boots), target)
            steps = tuple(step for step in plan.steps if step.place and step.place.hardware in _BOOT)
            # Reads the images, which may fail; a failure must not leave the board at its prompt.
            pieces = planning.not_overwritten(steps, planning.pieces(steps, _AREA_BYTES, self.hosts), BLOCK_BYTES)
            areas = tuple(Area.of(offset, piece.data) for piece, offset in planning.place_pieces(pieces))
        other = "boot1" if boots == "boot0" else "boot0"
        note = f"the boot parts go to {boots}, and {other} keeps what it has"
        if untried:
            note = f"{boots} was switched to before and has not booted since: {note}"
        bus = untried.bus if untried else settings.bootbus if 3 not in settings.bootbus else []  # 3 is reserved
        spare = Spare(boots, untried.kept if untried else active, bus, areas)
        return evolve(
            plan,
            notes=(*plan.notes, note),
            now=_there(plan, active) if active not in ("", boots) else None,
            spare=spare,
            before=_before(settings, content, spare) if spare.kept else ExtCsd(),
        )

    def write(self, plan: Plan, report: Report) -> None:
        """Write the plan, after a pending rollback of the eMMC."""
        if plan.spare.kept and plan.now is None:
            self.writer.switch(plan.back)
        self.writer.write(plan, report)

    def verify(self, plan: Plan) -> Verified:
        return self.writer.verify(plan)

    def switch(self, plan: Plan) -> str:
        return self.writer.switch(plan)

    def _is_untried(self, untried: Spare) -> bool:
        """Return whether a boot partition has never booted since a write.

        Something else may boot where the eMMC was switched back and boots from it again. It is read twice, since one
        damaged answer must not look like another release.
        """
        return not untried.switched_back or all(
            self.holds(untried.boots, area) or self.holds(untried.boots, area) for area in untried.areas
        )


def from_uboot(writer: UBootWriter, number: int) -> SpareBootWriter:
    """The same from U-Boot. number: U-Boot's, of the eMMC."""

    def holds(partition: str, area: Area) -> bool:
        return ubootemmc.holds(writer.begin(), number, partition, area)

    return SpareBootWriter(writer, lambda: ubootemmc.read(writer.begin(), number), holds, writer.end, writer.hosts)


def from_linux(writer: LinuxWriter) -> SpareBootWriter:
    """The same from Linux."""

    def holds(partition: str, area: Area) -> bool:
        return linuxemmc.holds(writer.begin(), writer.device, partition, area)

    return SpareBootWriter(
        writer, lambda: linuxemmc.read(writer.begin(), writer.device), holds, writer.end, writer.hosts
    )


def _there(made: Plan, partition: str) -> Plan:
    """The same plan for where the board boots from."""
    steps = tuple(
        evolve(step, place=evolve(step.place, hardware=partition))
        if step.place and step.place.hardware in _BOOT
        else step
        for step in made.steps
    )
    return evolve(made, content=move_boot_parts(made.content, partition), steps=steps)


def _before(found: ExtCsd, content: Content, spare: Spare) -> ExtCsd:
    """Settings that make the eMMC boot from the kept partition again.

    The bus is set only if it changes and could be read.
    """
    ack, _, access = found.partconf
    is_other = (content.extcsd.bootbus or found.bootbus) != spare.bus
    return ExtCsd([ack, _BOOT[spare.kept], access], spare.bus if is_other else [])
