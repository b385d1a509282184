"""From a Linux on the board: each piece is fetched over HTTP into its memory, checked there, written and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from attrs import evolve, field, frozen

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision.fetching import Hosts
from lab.provision.release import Content
from lab.provision.way import Meter, Plan, Report, Target, Verified
from lab.provision.ways import linuxanswers as answers
from lab.provision.ways import planning
from lab.provision.ways.command import Prompt, carry_out

PIECE_BYTES: Final = 16 * 1024 * 1024
_USUAL_RATE: Final = 10e6
_WITHOUT: Final = frozenset({"partition", "hardware", "volume", "mtd"})


class Server(Protocol):
    """Gives bytes out to the board."""

    def offered(self, name: str, data: bytes) -> AbstractContextManager[str]:
        """The URL of these bytes, as long as the context lasts."""


@frozen
class FolderServer:
    """Over HTTP from a folder. url: of the folder, as the board sees it."""

    folder: Path
    url: str

    @contextmanager
    def offered(self, name: str, data: bytes) -> Iterator[str]:
        """See `Server`."""
        path = self.folder / name
        path.write_bytes(data)
        try:
            yield f"{self.url}/{name}"
        finally:
            path.unlink(missing_ok=True)


@frozen
class LinuxWay:
    """Writes a block device from the board's Linux.

    Attributes:
        device: as that Linux calls it. begin: brings the board to its shell; it stays there until `end`.
    """

    name: str
    device: str
    server: Server
    begin: Callable[[], Prompt]
    end: Callable[[], None]
    hosts: Hosts | None = None
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)

    def plan(self, content: Content, target: Target) -> Plan:
        """See `lab.provision.way.Way`; what Linux itself runs from is refused."""
        planned = planning.steps(content, self.hosts, without=_WITHOUT)
        if content.extcsd.partconf or content.extcsd.bootbus:
            raise ConfigurationError(
                f"{target.medium}: Linux does not set extcsd here; write this medium from U-Boot, by the env"
            )
        for step in planned:
            answers.check_offset(step.place.offset or 0 if step.place else 0)
        planning.check_ranges(content, answers.SECTOR_BYTES, self.hosts)
        prompt = self.begin()
        answers.expect_unused(carry_out(prompt, answers.used_by(self.device)), self.device)
        size = answers.sectors(carry_out(prompt, answers.size_of(self.device)), self.device)
        planning.check_fits(content, planned, size, self.hosts)
        total = sum(step.bytes for step in planned)
        return Plan(
            self.name,
            evolve(target, device=self.device, size_bytes=size),
            content,
            planned,
            estimate_s=total / _USUAL_RATE,
        )

    def write(self, plan: Plan, report: Report) -> None:
        """See `lab.provision.way.Way`."""
        try:
            prompt = self.begin()
            answers.expect_unused(carry_out(prompt, answers.used_by(self.device)), self.device)
            meter = Meter(plan.total_bytes, report, self.now_ns)
            for piece, offset in planning.placed(planning.pieces(plan.steps, PIECE_BYTES, self.hosts)):
                if piece.first:
                    meter.begin(plan.steps[piece.step].name)
                digest = hashlib.sha256(piece.data).hexdigest()
                with self.server.offered(f"{piece.step}-{piece.offset:x}", piece.data) as url:
                    for command in answers.fetch(url, len(piece.data), digest):
                        carry_out(prompt, command)
                carry_out(prompt, answers.write(self.device, offset, len(piece.data)))
                meter.add(len(piece.data))
        except BaseException:
            self.end()
            raise

    def verify(self, plan: Plan) -> Verified:
        """See `lab.provision.way.Way`; the board reads back what was written and not overwritten by a later part, past its page cache."""
        try:
            prompt, compared = self.begin(), planning.Compared()
            carry_out(prompt, answers.forget_cache())
            for piece, offset in planning.placed(
                planning.kept(plan.steps, planning.pieces(plan.steps, PIECE_BYTES, self.hosts), answers.SECTOR_BYTES)
            ):
                digest, what = (
                    hashlib.sha256(piece.data).hexdigest(),
                    f"{plan.steps[piece.step].name}: read back at {offset:#x}",
                )
                carry_out(prompt, answers.compare(self.device, offset, len(piece.data), digest, what))
                compared.add(piece.data)
            return Verified(compared.digest, compared.count)
        finally:
            self.end()
