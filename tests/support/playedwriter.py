"""A labgrid driver that writes media which are files, for environments of simulated boards: `imports: - PATH of this file`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attr
from attrs import evolve, frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.provision import image
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.release import Content
from lab.provision.writer import Plan, ProvisionProtocol, Report, Step, Verified, WriteProgress, Writer, WriteTarget


@frozen
class FileWriter:
    """Writes the image of a medium into a file."""

    path: Path
    name: str = "file"

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        assert content.image is not None
        step = Step(content.image, None, image.unpacked_bytes(content.image))
        return Plan(self.name, evolve(target, device=str(self.path)), content, (step,))

    def write(self, plan: Plan, report: Report) -> None:
        self.path.write_bytes(self._data(plan))
        report(WriteProgress(plan.steps[0].name, plan.total_bytes, plan.total_bytes, 1))

    def verify(self, plan: Plan) -> Verified:
        if not self.path.exists() or self.path.read_bytes() != self._data(plan):
            raise MediaVerifyFailedError("another file is there")
        return Verified(hashlib.sha256(self.path.read_bytes()).hexdigest(), plan.total_bytes)

    def switch(self, plan: Plan) -> str:  # noqa: ARG002 - a file has nothing to switch
        return ""

    def _data(self, plan: Plan) -> bytes:
        return b"".join(image.open_image(plan.steps[0].file))


@target_factory.reg_driver
@attr.s(eq=False)
class PlayedWriterDriver(Driver, ProvisionProtocol):
    """folder: of the media. media: that it writes."""

    folder: str = attr.ib()
    media: list[str] = attr.ib()

    def writers(self, strategy: Any) -> Mapping[str, Writer]:  # noqa: ARG002
        return {name: FileWriter(Path(self.folder) / name) for name in self.media}
