"""The board's own bmaptool: what bmaptool 3.6 said on Debian 12, copying an image of 8 MiB from a server and from a folder."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from test_linux_way import PlayedLinux, way

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.failures import (
    ImageDamagedError,
    ImageTooLargeError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TftpTimeoutError,
)
from lab.provision.release import Content, Image, Part, Place
from lab.provision.way import Target
from lab.provision.ways import bmaptool
from lab.provision.ways import linuxanswers as answers

TARGET = Target("b1", "any", "emmc")
ERROR = "bmaptool: \x1b[91mERROR\x1b[0m: "
SAID = """\
bmaptool: info: block map format version 2.0
bmaptool: info: 2048 blocks of size 4096 (8.0 MiB), mapped 330 blocks (1.3 MiB or 16.1%)
bmaptool: info: copying image 'b.img.xz' to file 'dst' using bmap file 'b.bmap'
bmaptool: info: synchronizing '/tmp/dst'
bmaptool: info: copying time: 0.1s, copying speed 12.0 MiB/sec""".splitlines()
MAP = """\
<?xml version="1.0" ?>
<bmap version="2.0">
<ImageSize> {size} </ImageSize> <BlockSize> 4096 </BlockSize> <BlocksCount> {blocks} </BlocksCount>
<MappedBlocksCount> 2 </MappedBlocksCount> <ChecksumType> sha256 </ChecksumType>
<BmapFileChecksum> {checksum} </BmapFileChecksum>
<BlockMap> <Range chksum="{range}"> 1-2 </Range> </BlockMap>
</bmap>
"""


class PlayedBmaptool(PlayedLinux):
    """It fetches by a path here, and writes what the only range of its map says."""

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        if cmd.startswith("command -v bmaptool") and not self.breaks.get("command"):
            self.typed.append(cmd)
            return ["/usr/bin/bmaptool"], [], 0
        if found := re.match(r"bmaptool copy --bmap (\S+) (\S+) /dev/mmcblk0 ", cmd):
            if "bmaptool" in self.breaks:
                return (*self.breaks["bmaptool"][:1], [], self.breaks["bmaptool"][1])
            self.typed.append(cmd)
            assert "<Range" in Path(found[1]).read_text()
            data = Path(found[2]).read_bytes()
            with self.card.open("r+b") as card:
                card.seek(4096)
                card.write(data[4096 : 3 * 4096])
            return SAID, [], 0
        return super().run(cmd, timeout)


def content(folder: Path, *, with_part: bool = False) -> tuple[Content, bytes]:
    data = os.urandom(64 * 4096)
    (folder / "sdk.wic").write_bytes(data)
    text = MAP.format(
        size=len(data), blocks=64, checksum="0" * 64, range=hashlib.sha256(data[4096 : 3 * 4096]).hexdigest()
    )
    (folder / "sdk.wic.bmap").write_text(text.replace("0" * 64, hashlib.sha256(text.encode()).hexdigest()))
    image = Image(
        source=str(folder / "sdk.wic"),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        bmap=str(folder / "sdk.wic.bmap"),
    )
    parts = []
    if with_part:
        (folder / "u-boot.img").write_bytes(b"u" * 512)
        digest = hashlib.sha256(b"u" * 512).hexdigest()
        parts = [Part(name="u-boot.img", source=str(folder / "u-boot.img"), sha256=digest, to=Place(offset=64 * 4096))]
    return Content(image, parts), data


def test_a_board_that_has_it_writes_the_image_by_it_and_the_parts_as_ever(tmp_path: Path) -> None:
    board, (given, data) = PlayedBmaptool(tmp_path), content(tmp_path, with_part=True)
    chosen = way(board, tmp_path)
    plan = chosen.plan(given, TARGET)
    chosen.write(plan, lambda _progress: None)
    assert sum(command.startswith("bmaptool") for command in board.typed) == 1
    assert sum(command.startswith("dd if=/run") for command in board.typed) == 1
    card = board.card.read_bytes()
    assert card[: 4 * 4096] == b"\xa5" * 4096 + data[4096 : 3 * 4096] + b"\xa5" * 4096
    assert card[64 * 4096 :][:512] == b"u" * 512
    assert chosen.verify(plan).bytes == 2 * 4096 + 512
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_symlink()) == []


def test_one_that_lies_about_it_is_found_by_reading_back(tmp_path: Path) -> None:
    board, (given, _) = PlayedBmaptool(tmp_path), content(tmp_path)
    chosen = way(board, tmp_path)
    plan = chosen.plan(given, TARGET)
    board.breaks["bmaptool"] = (SAID, 0)
    chosen.write(plan, lambda _progress: None)
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def test_without_it_or_without_a_map_it_is_dd(tmp_path: Path) -> None:
    board, (given, _) = PlayedLinux(tmp_path), content(tmp_path)
    board.breaks["command -v"] = ([], 0)
    chosen = way(board, tmp_path)
    chosen.write(chosen.plan(given, TARGET), lambda _progress: None)
    assert any(command.startswith("dd if=/run") for command in board.typed)


@pytest.mark.parametrize(
    ("lines", "status", "kind"),
    [
        (SAID[:4], 0, MediaWriteFailedError),
        ([f"{ERROR}cannot open image:", "cannot open URL 'http://127.0.0.1:18080/none.img': HTTP Error 404: File not found", ""], 1, TftpTimeoutError),
        ([f"{ERROR}checksum mismatch for bmap file '/tmp/bad.bmap': calculated 'a8c8', should be '087a'", ""], 1, ImageDamagedError),
        ([f"{ERROR}checksum mismatch for blocks range 256-511: calculated 666c, should be 0000 (image file b.img.xz)", ""], 1, MediaVerifyFailedError),
        ([f"{ERROR}error while writing blocks 256-511 of '/dev/full': [Errno 28] No space left on device", ""], 1, ImageTooLargeError),
        (["sh: bmaptool: not found"], 127, ConfigurationError),
    ],
)  # fmt: skip
def test_what_it_says_has_its_class(lines: list[str], status: int, kind: type[BoardlabError]) -> None:
    command = bmaptool.copy("http://10.0.2.2/image.xz", "http://10.0.2.2/image.bmap", "/dev/mmcblk0", 4096)
    with pytest.raises(kind):
        command.judge(lines, status)


@pytest.mark.parametrize("status", [0, 1])
def test_the_end_of_what_it_says_comes_with_its_own_exit_status(tmp_path: Path, status: int) -> None:
    fake = tmp_path / "bmaptool"
    fake.write_text(f"#!/bin/sh\nseq 20 >&2\necho $5\nexit {status}\n")
    fake.chmod(0o755)
    command = bmaptool.copy("http://10.0.2.2/image.xz", "http://10.0.2.2/image.bmap", "/dev/mmcblk0", 4096)
    done = subprocess.run(
        ["sh", "-c", command.text.replace(answers.SPOOL, str(tmp_path / "piece"))],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (status, ["16", "17", "18", "19", "20", "/dev/mmcblk0"])
