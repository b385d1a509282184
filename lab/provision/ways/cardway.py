"""SD by a multiplexer: the board off, the card at the host, written and read back there, and at the board again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from attrs import evolve, field, frozen

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision.fetching import Hosts
from lab.provision.release import Content
from lab.provision.way import Meter, Plan, Report, Target, Verified
from lab.provision.ways import blockdevice, planning
from lab.provision.ways.hostdisk import Disk

PIECE_BYTES: Final = 4 * 1024 * 1024
_USUAL_RATE: Final = 20e6
_WITHOUT: Final = frozenset({"hardware", "mtd", "volume", "partition"})


@frozen
class CardWay:
    """Writes a card that is at the host for a while.

    Attributes:
        at_host: brings the card to the host, with the board off, and gives the disk that it is there; at its end the card is at the
            board again, both verified. It refuses disks that are not the card.
        opener: what opens the block writer of a disk; None: this host's.
    """

    name: str
    at_host: Callable[[], AbstractContextManager[Disk]]
    hosts: Hosts | None = None
    stall_s: float = blockdevice.STALL_S
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)
    opener: Callable[[Disk], blockdevice.Opener | None] = lambda _disk: None

    def plan(self, content: Content, target: Target) -> Plan:
        """See `lab.provision.way.Way`."""
        planned = planning.steps(content, self.hosts, without=_WITHOUT)
        if content.extcsd.given:
            raise ConfigurationError(f"{target.medium}: extcsd is an eMMC's; a card has none. Mend the release file")
        with self.at_host() as disk:
            found = disk
        planning.check_fits(content, planned, found.size_bytes, self.hosts)
        target = evolve(
            target, device=found.shown, identity=found.identity, size_bytes=found.size_bytes, host=found.host
        )
        return Plan(self.name, target, content, planned, estimate_s=sum(step.bytes for step in planned) / _USUAL_RATE)

    def write(self, plan: Plan, report: Report) -> None:
        """See `lab.provision.way.Way`."""
        meter = Meter(plan.total_bytes, report, self.now_ns, self.stall_s)
        with self.at_host() as disk:
            planning.check_fits(plan.content, plan.steps, disk.size_bytes, self.hosts)
            blockdevice.write(
                disk.path,
                planning.placed(planning.pieces(plan.steps, PIECE_BYTES, self.hosts)),
                meter,
                lambda piece: plan.steps[piece.step].name,
                self.opener(disk),
            )

    def verify(self, plan: Plan) -> Verified:
        """See `lab.provision.way.Way`; every byte that was written, and not overwritten by a later part, is read from the card."""
        meter = Meter(plan.total_bytes, lambda _progress: None, self.now_ns, self.stall_s)
        with self.at_host() as disk:
            compared = blockdevice.compare(
                disk.path,
                planning.placed(planning.kept(plan.steps, planning.pieces(plan.steps, PIECE_BYTES, self.hosts), 1)),
                meter,
                self.opener(disk),
            )
        return Verified(compared.digest, compared.count)

    def switch(self, plan: Plan) -> str:  # noqa: ARG002 - as of `Way`
        """See `lab.provision.way.Way`: a card has one place that a board boots from."""
        return ""
