"""Ways from Linux that are cut short at some byte of their work, and the next try; `CutLinux` plays the board."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from attrs import frozen

from lab.errors import BoardlabError
from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import Plan, WriteTarget
from lab.provision.writers.linux import FolderServer, LinuxWriter, OverHttp, OverSsh
from support.cutlinux import DISK, ERASE, FLASH, CutLinux, KilledError

BLOCK = 4096
WAYS = ("dd-http", "dd-ssh", "bmaptool", "flash-offsets", "flashcp", "ubi-new", "ubi-there")
NETWORK = ("stall", "reset", "short")  # it carries nothing any more; ends with an error; ends as if all had come
ENDS = ("power", "killed", *NETWORK)
_MAP = """\
<?xml version="1.0" ?>
<bmap version="2.0">
<ImageSize> {size} </ImageSize> <BlockSize> 4096 </BlockSize> <BlocksCount> {blocks} </BlocksCount>
<MappedBlocksCount> {blocks} </MappedBlocksCount> <ChecksumType> sha256 </ChecksumType>
<BmapFileChecksum> {checksum} </BmapFileChecksum>
<BlockMap> <Range chksum="{digest}"> 0-{last} </Range> </BlockMap>
</bmap>
"""
_TOLD = {  # what each end may be called: by the command that it strikes
    "power": {"write_stalled", "tftp_timeout"},
    "stall": {"tftp_timeout", "write_stalled"},  # bmaptool's own progress ends it
    "reset": {"tftp_timeout"},
    "short": {"media_verify_failed", "tftp_timeout"},
}


@frozen
class Given:
    """What goes on the board, and where: (device, first byte, bytes) of each part."""

    content: Content
    device: str
    ranges: tuple[tuple[str, int, bytes], ...]


def _file(folder: Path, name: str, count: int) -> tuple[Path, bytes, str]:
    data = random.Random(name).randbytes(count)
    path = folder / name
    path.write_bytes(data)
    return path, data, hashlib.sha256(data).hexdigest()


def _part(folder: Path, name: str, count: int, to: PartPlace) -> tuple[Part, bytes]:
    path, data, digest = _file(folder, name, count)
    return Part(name=name, source=str(path), sha256=digest, size=count, to=to), data


def given(folder: Path, way: str) -> Given:
    """The files of a way, in a folder."""
    if way.startswith(("dd", "bmaptool")):
        path, data, digest = _file(folder, "sdk.wic", 300 * BLOCK)
        text = _MAP.format(size=len(data), blocks=300, last=299, checksum="0" * 64, digest=digest)
        (folder / "sdk.wic.bmap").write_text(text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest()))
        image = Image(source=str(path), sha256=digest, size=len(data), bmap=str(folder / "sdk.wic.bmap"))
        part, boot = _part(folder, "u-boot.img", 7000, PartPlace(offset=3 << 19))
        return Given(Content(image, [part]), DISK, ((DISK, 0, data), (DISK, 3 << 19, boot)))
    if way == "flash-offsets":
        first, data = _part(folder, "tiboot3.bin", 5000, PartPlace(offset=0))
        second, more = _part(folder, "u-boot.img", 3 * ERASE + 10, PartPlace(offset=4 * ERASE))
        return Given(Content(parts=[first, second]), FLASH, ((FLASH, 0, data), (FLASH, 4 * ERASE, more)))
    if way == "flashcp":
        part, data = _part(folder, "tispl.bin", 5 * ERASE + 10, PartPlace(mtd="ospi"))
        return Given(Content(parts=[part]), "mtd", ((FLASH, 0, data),))
    part, data = _part(folder, "rootfs.ubifs", 5 * ERASE + 10, PartPlace(mtd="ospi", volume="rootfs"))
    return Given(Content(parts=[part]), "mtd", (("rootfs", 0, data),))


def board(folder: Path, way: str) -> CutLinux:
    """A board with something else on its media; for "ubi-there" with a UBI and a volume."""
    made = CutLinux(folder, has_bmaptool=way == "bmaptool")
    if way == "ubi-there":
        made._ubiformat()
        made._ubimkvol("rootfs")
        made.work = 0
    return made


class Lab:
    """A lab host with one board and a folder that it serves; each try begins with the board's power."""

    def __init__(self, folder: Path, way: str) -> None:
        self.board, self.given, self.state = board(folder, way), given(folder, way), "unknown"
        server = FolderServer(folder, str(folder))
        carrier = OverSsh(self.board.put) if way.endswith("ssh") else OverHttp(server)
        self.writer = LinuxWriter(way, self.given.device, carrier, self._begin, self._end, now_ns=self.board.now_ns)

    def _begin(self) -> CutLinux:
        if self.state != "linux":
            self.board.boot()
            self.state = "linux"
        return self.board

    def _end(self) -> None:
        self.state = "unknown"

    def plan(self) -> Plan:
        return self.writer.plan(self.given.content, WriteTarget("b1", "any", "emmc"))

    def provision(self) -> str:
        """One `lab provision`: "ok", "killed" or the failure's class."""
        try:
            plan = self.plan()
            self.writer.write(plan, lambda _progress: None)
            assert self.writer.verify(plan).bytes == plan.total_bytes
            self.writer.switch(plan)
        except KilledError:
            self._end()  # another process knows nothing of the board's state
            return "killed"
        except BoardlabError as error:
            return error.failure
        return "ok"

    def has_release(self) -> bool:
        """Whether every part is where it belongs."""
        found = self.board.media | {"rootfs": self.board.volume()}
        return all(bytes(found[name][at : at + len(data)]) == data for name, at, data in self.given.ranges)

    def elsewhere(self) -> dict[str, str]:
        """Digests of everything that is not the target: a flash's target are whole erase blocks, a UBI's its partition."""
        found = {}
        for name, medium in self.board.media.items():
            rest, block = bytearray(medium), ERASE if name == FLASH else 512
            for device, at, data in self.given.ranges:
                if device == name:
                    end = -(-(at + len(data)) // block) * block
                    rest[at:end] = bytes(end - at)
            if self.given.ranges[0][0] == "rootfs" and name == FLASH:
                continue
            found[name] = hashlib.sha256(rest).hexdigest()
        return found


def work(folder: Path, way: str) -> tuple[int, int]:
    """The bytes that a provisioning moves which nobody disturbs: until its plan is made, and in all."""
    lab = Lab(folder, way)
    lab.plan()
    planned, lab.board.work = lab.board.work, 0
    lab.state = "unknown"
    assert lab.provision() == "ok"
    assert lab.has_release()
    return planned, lab.board.work


def cut(folder: Path, way: str, at: int, end: str) -> None:
    """Cut a provisioning short where it has moved so many bytes; the next try does it."""
    lab = Lab(folder, way)
    before = lab.elsewhere()
    lab.board.strike_at, lab.board.end = at, end
    first = lab.provision()
    assert lab.board.struck, f"it ended after {lab.board.work} bytes"
    assert lab.elsewhere() == before
    if end == "killed":
        assert first == "killed"
    elif end == "power" or lab.board.missed:  # what needs the network no more misses nothing
        assert first in _TOLD[end], first
    else:
        assert first == "ok"
    lab.board.strike_at, lab.board.network = None, ""
    lab.board.struck = False
    assert lab.provision() == "ok"
    assert lab.has_release()
    assert lab.elsewhere() == before
