"""`lab provision` on a simulated board of a real bench, over a real TFTP server, and its process killed."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from attrs import define, field

from lab.host.runtime import recordings_dir
from support import children
from support.measuring_lab import ROOT, Lab
from support.simprovision import NEW, OLD, PLACES, UBOOT_OF
from support.simrecovery import images

BOARD, BOARD_TYPE = "am62xx_sk-1", "am62xx_sk"
DEADLINE_S = 900  # a busy machine; a quiet one takes a twentieth of it
_LOOK_S = 0.01
_COMMAND = (sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", "provision")


@define
class ProvisionedLab:
    """A bench with an environment whose U-Boot writes the media.

    Attributes:
        base: the environment without the driver that writes; None: the board's own. over: as of UBootWriterDriver.
        env: the environment file. releases: name -> release file.
    """

    lab: Lab
    base: Path | None = None
    over: str = "tftp"
    env: Path = field(init=False)
    releases: dict[str, Path] = field(init=False)

    def __attrs_post_init__(self) -> None:
        base = self.base or self.lab.bench.folder / BOARD / "env.yaml"
        document = yaml.safe_load(base.read_text(encoding="utf-8"))
        writer = {"media": {"ospi": "sf", "emmc": "mmc 0"}, "port": 0, "board_address": "127.0.0.1", "boot_from": "sd"}
        document["targets"]["main"]["drivers"].append({"UBootWriterDriver": {**writer, "over": self.over}})
        self.env = base.with_name(f"written-{self.over}.yaml")
        self.env.write_text(yaml.safe_dump(document), encoding="utf-8")
        self.releases = {name: self._release(name) for name in (OLD, NEW)}

    def provision(self, release: str, medium: str) -> subprocess.Popen[str]:
        """Begin to put a release on a medium."""
        words = ("--env", str(self.env), "--release", str(self.releases[release]), "--medium", medium)
        return subprocess.Popen(
            [*_COMMAND, *words],
            env=self.lab.environ,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def provisioned(self, release: str, medium: str) -> list[str]:
        """Put it there; the lines that were said. It fails where the command does."""
        process = self.provision(release, medium)
        said = children.said(process, DEADLINE_S)
        assert process.returncode == 0, said
        assert f"{medium}: booted, and it is {release}" in said
        return said.splitlines()

    def killed(self, release: str, medium: str, lines: int) -> None:
        """Begin to put it there, and kill -9 the process once it has said so many lines."""
        process = self.provision(release, medium)
        assert process.stdout is not None
        try:
            said = [process.stdout.readline() for _ in range(lines)]
        finally:
            process.kill()
            process.communicate(timeout=DEADLINE_S)
        assert process.returncode == -signal.SIGKILL, f"ended by itself before the kill:\n{''.join(said)}"

    def killed_at(self, release: str, medium: str, heard: int) -> None:
        """The same once the console has said so many bytes more."""
        wanted = self.heard + heard
        process = self.provision(release, medium)
        try:
            deadline_s = time.monotonic() + DEADLINE_S
            while self.heard < wanted and process.poll() is None and time.monotonic() < deadline_s:
                time.sleep(_LOOK_S)
        finally:
            process.kill()
            said, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == -signal.SIGKILL, f"ended by itself before the kill:\n{said}"
        assert self.heard >= wanted

    @property
    def heard(self) -> int:
        """Bytes that the console has said."""
        return sum(path.stat().st_size for path in recordings_dir(self.lab.folder / "runtime").glob("*.log"))

    def _release(self, name: str) -> Path:
        media: dict[str, Any] = {}
        for medium, places in PLACES.items():
            parts = []
            for part, data in images(BOARD_TYPE, name).items():
                (self.lab.folder / f"{name}-{part}").write_bytes(data)
                place = places[part]
                to: dict[str, object] = {"offset": place.offset}
                if place.hardware != "user":
                    to["hardware"] = place.hardware
                digest = hashlib.sha256(data).hexdigest()
                parts.append({"name": part, "to": to, "source": f"{name}-{part}", "sha256": digest})
            media[medium] = {"parts": parts}
        media["emmc"]["extcsd"] = {"partconf": [1, 1, 0], "bootbus": [2, 0, 0]}
        document = {"boards": [BOARD_TYPE], "media": media, "identity": {"uboot": f"U-Boot {UBOOT_OF[name]}"}}
        path = self.lab.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path
