"""A driver that copies a medium's image to a file, e.g. of an emulator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attr
from attrs import evolve, frozen
from labgrid.driver import Driver
from labgrid.factory import target_factory

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.image import open_image, unpacked_bytes
from lab.provision.release import Content
from lab.provision.writer import Meter, Plan, ProvisionProtocol, Report, Step, Verified, WriteTarget


@frozen
class CopyWriter:
    """A `lab.provision.writer.Writer`."""

    path: Path
    name: str = "copy"

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        """Plan to copy the image.

        Raises:
            ConfigurationError: the content is not one image.
        """
        if content.image is None or content.parts:
            raise ConfigurationError(f"{target.medium}: CopyDriver writes one image, and no parts")
        size = unpacked_bytes(content.image)
        return Plan(self.name, evolve(target, device=str(self.path)), content, (Step(content.image, None, size),))

    def write(self, plan: Plan, report: Report) -> None:
        """Copy it."""
        (step,) = plan.steps
        meter = Meter(plan.total_bytes, report, MonotonicRaw().now_ns)
        meter.begin(step.name)
        with self.path.open("wb") as file:
            for chunk in open_image(step.file):
                file.write(chunk)
                meter.add(len(chunk))

    def verify(self, plan: Plan) -> Verified:
        """Compare the file with the image.

        Raises:
            MediaVerifyFailedError: it has other bytes.
        """
        (step,) = plan.steps
        digest = hashlib.sha256()
        for chunk in open_image(step.file):
            digest.update(chunk)
        found = hashlib.sha256(self.path.read_bytes())
        if found.digest() != digest.digest():
            raise MediaVerifyFailedError(f"{self.path} has other bytes than {step.name}; write it again")
        return Verified(found.hexdigest(), step.bytes)

    def switch(self, plan: Plan) -> str:  # noqa: ARG002 - a file needs none
        """Nothing selects a file."""
        return ""


@target_factory.reg_driver
@attr.s(eq=False)
class CopyDriver(Driver, ProvisionProtocol):
    """CopyDriver - writes a medium by copying its image to a file

    Args:
        medium (str): the medium. path (str): the file.
    """

    medium: str = attr.ib(validator=attr.validators.instance_of(str))
    path: str = attr.ib(validator=attr.validators.instance_of(str))

    def writers(self, strategy: Any) -> Mapping[str, CopyWriter]:  # noqa: ARG002
        return {self.medium: CopyWriter(Path(self.path))}
