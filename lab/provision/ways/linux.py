"""From a Linux on the board: each piece is carried into its memory over HTTP or ssh, checked there, written and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from attrs import evolve, field, frozen

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision.fetching import Hosts
from lab.provision.image import packing
from lab.provision.release import Content, Image
from lab.provision.way import Meter, Plan, Report, Step, Target, Verified
from lab.provision.ways import bmaptool, planning
from lab.provision.ways import linuxanswers as answers
from lab.provision.ways import linuxemmc as emmc
from lab.provision.ways.carriers import Carrier, OverHttp
from lab.provision.ways.command import Prompt, carry_out
from lab.provision.ways.linuxmedia import Blocks, Medium, Surface, parse
from lab.provision.ways.spooling import spooled

_USUAL_RATE: Final = 10e6
_PROBE: Final = b"boardlab\n"  # is carried before anything is decided


@frozen
class LinuxWay:
    """Writes a medium from the board's Linux.

    Attributes:
        device: the medium, as that Linux calls it (`lab.provision.ways.linuxmedia.parse`).
        begin: brings the board to its shell; it stays there until `end`.
    """

    name: str
    device: str
    carrier: Carrier
    begin: Callable[[], Prompt]
    end: Callable[[], None]
    hosts: Hosts | None = None
    now_ns: Callable[[], int] = field(default=MonotonicRaw().now_ns)

    def plan(self, content: Content, target: Target) -> Plan:
        """See `lab.provision.way.Way`; what Linux itself runs from is refused, and so is a Linux that a piece does not reach."""
        planned = planning.steps(content, self.hosts, without=self._medium.without)
        if content.extcsd.given:
            if not emmc.DEVICE.fullmatch(self.device):
                raise ConfigurationError(
                    f"{target.medium}: extcsd is an eMMC's, and {self.device} is none; mend the release file or the env"
                )
            emmc.check_extcsd(content.extcsd)
        self._medium.check(content, planned, self.hosts)
        try:
            prompt = self.begin()
            surface = self._medium.look(prompt)
            surface.check(prompt, content, planned, self.hosts)
            planning.check_fits(content, planned, surface.size_bytes, self.hosts)
            self._most(prompt, surface, planned)
            self._carry(prompt, "probe", _PROBE, "a probe")
        except BaseException:
            self.end()
            raise
        total = sum(step.bytes for step in planned)
        target = evolve(target, device=self.device, size_bytes=surface.size_bytes)
        return Plan(self.name, target, content, planned, estimate_s=total / _USUAL_RATE)

    def write(self, plan: Plan, report: Report) -> None:
        """See `lab.provision.way.Way`."""
        try:
            prompt = self.begin()
            surface = self._medium.look(prompt)
            meter = Meter(plan.total_bytes, report, self.now_ns, bmaptool.STALL_S)
            most = self._most(prompt, surface, plan.steps)
            whole = self._by_bmaptool(prompt, plan, meter) or self._streamed(prompt, plan, meter, most)
            for piece, offset in planning.placed(planning.pieces(plan.steps, most, self.hosts, without=whole)):
                step = plan.steps[piece.step]
                if piece.first:
                    meter.begin(step.name)
                self._carry(prompt, f"{piece.step}-{piece.offset:x}", piece.data, step.name)
                surface.write(prompt, piece.place, offset, len(piece.data))
                meter.add(len(piece.data))
        except BaseException:
            self.end()
            raise

    def verify(self, plan: Plan) -> Verified:
        """See `lab.provision.way.Way`; the board reads back what was written and not overwritten by a later part, past its page cache."""
        try:
            prompt, compared = self.begin(), planning.Compared()
            surface = self._medium.look(prompt)
            carry_out(prompt, answers.forget_cache())
            found = planning.pieces(plan.steps, self._most(prompt, surface, plan.steps), self.hosts)
            for piece, offset in planning.placed(planning.kept(plan.steps, found, surface.align)):
                digest = hashlib.sha256(piece.data).hexdigest()
                what = f"{plan.steps[piece.step].name}: read back at {offset:#x}"
                surface.compare(prompt, piece.place, offset, len(piece.data), digest, what)
                compared.add(piece.data)
        except BaseException:
            self.end()
            raise
        if not plan.content.extcsd.given:
            self.end()
        return Verified(compared.digest, compared.count)

    def switch(self, plan: Plan) -> str:
        """See `lab.provision.way.Way`."""
        if not plan.content.extcsd.given:
            return ""
        try:
            emmc.set_extcsd(self.begin(), self.device, plan.content.extcsd)
        finally:
            self.end()
        return ""

    def _by_bmaptool(self, prompt: Prompt, plan: Plan, meter: Meter) -> frozenset[int]:
        """Have the board's bmaptool fetch and write an image that has a block map; the numbers of the steps that are done so."""
        image = plan.content.image
        if image is None or not image.bmap or not isinstance(self._medium, Blocks):
            return frozenset()
        if not isinstance(self.carrier, OverHttp):
            return frozenset()
        packed = packing(image)
        if not bmaptool.there(carry_out(prompt, bmaptool.ask(packed)), packed):
            return frozenset()
        (number,) = (number for number, step in enumerate(plan.steps) if isinstance(step.file, Image))
        step = plan.steps[number]
        meter.begin(step.name)
        with self.carrier.image(image, self.hosts) as (url, bmap_url):
            bmaptool.copy(prompt, url, bmap_url, self._medium.device, step.bytes, meter)
        return frozenset({number})

    def _streamed(self, prompt: Prompt, plan: Plan, meter: Meter, most: int) -> frozenset[int]:
        """Have the board fetch an image and write it while it comes; the numbers of the steps that are done so.

        It is not looked at on the way: of a whole image, half of which is as bad as a wrong byte, the reading back says what is wrong.
        """
        numbers = frozenset(number for number, step in enumerate(plan.steps) if isinstance(step.file, Image))
        if not numbers or not isinstance(self.carrier, OverHttp) or not isinstance(self._medium, Blocks):
            return frozenset()
        others = frozenset(range(len(plan.steps))) - numbers
        meter.begin(plan.steps[min(numbers)].name)
        found = planning.pieces(plan.steps, most, self.hosts, without=others)
        with TemporaryDirectory(prefix="boardlab-image-") as folder:
            for each in spooled(found, Path(folder)):
                self.carrier.stream(prompt, each.path, each.bytes, self.device, each.offset)
                each.path.unlink()
                meter.add(each.bytes)
        carry_out(prompt, answers.flush(self.device))
        return numbers

    @property
    def _medium(self) -> Medium:
        return parse(self.device)

    @staticmethod
    def _most(prompt: Prompt, surface: Surface, planned: Sequence[Step]) -> int:
        return surface.most(planned, answers.memory_bytes(carry_out(prompt, answers.memory())))

    def _carry(self, prompt: Prompt, name: str, data: bytes, what: str) -> None:
        self.carrier.carry(prompt, name, data)
        digest = hashlib.sha256(data).hexdigest()
        carry_out(prompt, answers.digest(len(data), digest, f"{what}: what was loaded"))
