"""A board and ways to write it that are a dictionary: what is put where, what breaks, and what then boots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attrs import define, evolve, field

from lab.provision import image
from lab.provision.errors import ImageTooLargeError, MediaVerifyFailedError, MediaWriteFailedError
from lab.provision.release import Content, Image, Part, Recovery
from lab.provision.writer import Plan, Report, Step, Verified, WriteProgress, WriteTarget, order


@define
class PlayedWriter:
    """A way whose medium is bytes by name of the step."""

    name: str = "played"
    room: int = 1 << 40
    breaks: str = ""
    method: str = "full"
    medium: dict[str, bytes] = field(factory=dict)
    switched: list[str] = field(factory=list)

    def plan(self, content: Content, target: WriteTarget) -> Plan:
        files = [*([content.image] if content.image else []), *order(content.parts)]
        steps = [Step(file, file.to if isinstance(file, Part) else None, image.unpacked_bytes(file)) for file in files]
        if sum(step.bytes for step in steps) > self.room:
            raise ImageTooLargeError("too large")
        return Plan(self.name, evolve(target, device="a dictionary"), content, tuple(steps))

    def write(self, plan: Plan, report: Report) -> None:
        for step in plan.steps:
            if step.name == self.breaks:
                raise MediaWriteFailedError("it broke at http://me:secret@there/")
            assert isinstance(step.file, Image | Part)
            self.medium[step.name] = b"".join(image.open_image(step.file))
            report(WriteProgress(step.name, step.bytes, plan.total_bytes, 1))

    def verify(self, plan: Plan) -> Verified:
        digest = hashlib.sha256()
        for step in plan.steps:
            if self.medium.get(step.name) != b"".join(image.open_image(step.file)):
                raise MediaVerifyFailedError(f"{step.name} is not what was written")
            digest.update(self.medium[step.name])
        return Verified(digest.hexdigest(), plan.total_bytes, self.method)

    def switch(self, plan: Plan) -> str:
        self.switched.append(plan.target.medium)
        return ""


@define
class PlayedBoard:
    """A board: `says` is what it says of itself after a boot, by medium."""

    played: dict[str, PlayedWriter]
    says: Mapping[str, Mapping[str, str]]
    board: str = "b-1"
    medium: str = "sd"
    security: str = ""
    recovery: Recovery = field(factory=Recovery)
    type: Any = field(factory=lambda: SimpleNamespace(name="some_board", media=dict.fromkeys(("sd", "emmc", "ospi"))))
    boots: list[str] = field(factory=list)

    def writers(self) -> dict[str, PlayedWriter]:
        return self.played

    def select_medium(self, medium: str) -> None:
        self.medium = medium

    def booted(self, medium: str, questions: Mapping[str, str]) -> dict[str, str]:
        self.boots.append(medium)
        said = self.says[medium]
        return {name: said[name] for name in ("uboot", "kernel", *questions) if name in said}


def a_file(folder: Path, name: str, data: bytes) -> dict[str, Any]:
    """A file, and its entry in a release file."""
    (folder / name).write_bytes(data)
    return {"source": name, "sha256": hashlib.sha256(data).hexdigest()}
