"""Releases of the QEMU boards with a boot ROM and SPL: made by `lab release make`, put on them by `lab provision`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from lab.cli import main
from lab.provision.writer import Plan, Verified
from lab.provision.writers.file_server import TFTP_PORT
from lab.provision.writers.uboot import UBootWriter
from lab.virtual.board import BoardFolder
from lab.virtual.images import cache
from lab.virtual.qemu import releases
from support.measuring_lab import ROOT, Lab

LAB: Final = Path(sys.executable).with_name("lab")
DEADLINE_S: Final = 2700  # a busy machine; a quiet one takes a tenth of it
OWN_ADDRESS: Final = (
    "127.0.0.69"  # the board's packets for it go through QEMU's gateway; another server may have 127.0.0.1
)
PREPARE: Final = "/etc/init.d/network"
_WRITERS: Final = {"UBootWriterDriver", "MultiplexedCardDriver", "VirtualSDMuxDriver"}


def release(folder: Path, board_type: str, name: str, *, other: bool = False) -> Path:
    """The release file of a build of the board's software; `other`: with another kernel of Debian's, where it has two."""
    build = releases.write_builds(board_type, name, folder / f"build-{name}", cache.default_root(), print, other=other)
    images = [word for medium, image in build.images.items() for word in ("--image", f"{medium}={image}")]
    identity = ["--kernel", f"Linux version {re.escape(build.kernel)} ", "--build-id", f"^{re.escape(name)}$"]
    words = [LAB, "release", "make", build.folder, "--board", board_type, "--name", name, "--output", folder]
    subprocess.run([*words, *images, *identity], check=True, cwd=ROOT, timeout=DEADLINE_S)
    return folder / f"{name}.yaml"


def environment(lab: Lab) -> Path:
    """The one that `lab virtual up` wrote: SD by the multiplexer, the rest from U-Boot."""
    return lab.bench.folder / "env.yaml"


def linux_environment(lab: Lab, medium: str, device: str, boot_from: str) -> Path:
    """One where the board's Linux writes a medium, and nothing else writes."""
    document: dict[str, Any] = yaml.safe_load(environment(lab).read_text())
    drivers = [each for each in document["targets"]["main"]["drivers"] if not _WRITERS & set(each)]
    writer = {"media": {medium: device}, "boot_from": boot_from, "server": "10.0.2.2", "prepare": PREPARE}
    drivers.insert(-1, {"LinuxWriterDriver": writer})
    document["targets"]["main"]["drivers"] = drivers
    path = lab.folder / "linux.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def may_serve_tftp() -> bool:
    """Whether this user may open TFTP's own port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((OWN_ADDRESS, TFTP_PORT))
        except OSError:  # not permitted, or another server has it
            return False
    return True


def own_server_environment(lab: Lab) -> Path:
    """One where U-Boot loads from a TFTP server that boardlab starts."""
    document: dict[str, Any] = yaml.safe_load(environment(lab).read_text())
    for each in document["targets"]["main"]["drivers"]:
        if "UBootWriterDriver" in each:
            each["UBootWriterDriver"] = {key: each["UBootWriterDriver"][key] for key in ("media", "boot_from")} | {
                "listen": OWN_ADDRESS
            }
    path = lab.folder / "own-server.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def said(lab: Lab, *words: str | Path, env: Path | None = None, code: int | None = 0, damaged: str = "") -> str:
    """What a command of `lab` prints; it ends with `code` (None: 0 or 1, as a verdict does). damaged: a medium that changes between its write and its being read back."""
    program = [sys.executable, "-m", __spec__.name, str(image(lab, damaged))] if damaged else [LAB]
    done = subprocess.run(
        [*program, *map(str, words)],
        env={**os.environ, **lab.environ, "LAB_ENV": str(env or environment(lab)), "PYTHONPATH": str(ROOT / "tests")},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode in ((0, 1) if code is None else (code,)), done.stdout
    return done.stdout


def image(lab: Lab, medium: str) -> Path:
    """The file of a medium that lies at the board."""
    return BoardFolder(lab.bench.folder / lab.bench.board.name).medium(medium)


def damage(path: Path) -> None:
    """Change one byte in the middle of what an image holds."""
    with path.open("r+b") as file:
        begin = os.lseek(file.fileno(), path.stat().st_size // 8, os.SEEK_DATA)
        end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        file.seek((begin + end) // 2)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def main_with_damage() -> int:
    """The command `lab` as a process of its own; an image is damaged between its write by U-Boot and its being read back.

    The first argument is the image, the others are those of `lab`.
    """
    path, words = Path(sys.argv[1]), sys.argv[2:]
    verify = UBootWriter.verify

    def damaged(way: UBootWriter, plan: Plan) -> Verified:
        damage(path)
        return verify(way, plan)

    UBootWriter.verify = damaged  # type: ignore[method-assign]
    return main(words)


if __name__ == "__main__":
    sys.exit(main_with_damage())
