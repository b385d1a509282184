"""The board's own bmaptool: what bmaptool 3.6 said on Debian 12, copying an image of 8 MiB from a server and from a folder."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from attrs import evolve
from test_card_writer import Clock
from test_linux_writer import PlayedLinux, writer

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import (
    ImageDamagedError,
    ImageTooLargeError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TftpTimeoutError,
    WriteStalledError,
)
from lab.provision.image import packing
from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import WriteTarget
from lab.provision.writers import bmaptool
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers.command import Command

TARGET = WriteTarget("b1", "any", "emmc")
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


STAT = "     120        0     4000       50      {}        0    {}       90        0      100      140        0        0        0        0"


class PlayedBmaptool(PlayedLinux):
    """It fetches by a path here, and writes what the only range of its map says. hangs: after so many looks nothing is written."""

    unpacker = ""
    looks, hangs = 0, False

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        if cmd.startswith("command -v bmaptool") and not self.breaks.get("command"):
            self.typed.append(cmd)
            return ["/usr/bin/bmaptool", *([self.unpacker] if self.unpacker else [])], [], 0
        if "mmcblk0/stat" in cmd:
            self.looks += 1
            written = min(self.looks, 3)
            ended = [] if self.hangs or self.looks < 4 else ["0"]
            return [*ended, STAT.format(written, written * 8)], [], 0
        if cmd.startswith("tail"):
            lines, status = self.breaks.get("bmaptool", (SAID, 0))
            return lines, [], status
        if found := re.search(r"bmaptool copy --bmap (\S+) (\S+) /dev/mmcblk0 ", cmd):
            if "bmaptool" in self.breaks:
                return [], [], 0
            self.typed.append("bmaptool")
            assert "<Range" in Path(found[1]).read_text()
            data = Path(found[2]).read_bytes()
            with self.card.open("r+b") as card:
                card.seek(4096)
                card.write(data[4096 : 3 * 4096])
            return [], [], 0
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
        parts = [
            Part(name="u-boot.img", source=str(folder / "u-boot.img"), sha256=digest, to=PartPlace(offset=64 * 4096))
        ]
    return Content(image, parts), data


def test_a_board_that_has_it_writes_the_image_by_it_and_the_parts_as_ever(tmp_path: Path) -> None:
    board, (given, data) = PlayedBmaptool(tmp_path), content(tmp_path, with_part=True)
    chosen = writer(board, tmp_path)
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
    chosen = writer(board, tmp_path)
    plan = chosen.plan(given, TARGET)
    board.breaks["bmaptool"] = (SAID, 0)
    chosen.write(plan, lambda _progress: None)
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)


def test_its_progress_is_told_and_one_that_writes_nothing_any_more_is_ended(tmp_path: Path) -> None:
    board, (given, _) = PlayedBmaptool(tmp_path), content(tmp_path)
    chosen, seen = evolve(writer(board, tmp_path), now_ns=Clock().now_ns), list[int]()
    plan = chosen.plan(given, TARGET)
    chosen.write(plan, lambda progress: seen.append(progress.done))
    assert seen == [0, 4096, 8192]
    board.looks, board.hangs = 0, True
    with pytest.raises(WriteStalledError, match=r"sdk\.wic: .*300 s.*8192"):
        chosen.write(plan, lambda _progress: None)


@pytest.mark.parametrize(
    ("name", "unpacker", "program"),
    [
        ("a.wic.xz", "/usr/bin/xz", True),
        ("a.wic.xz", "/bin/gzip", False),
        ("a.wic.zst", "/usr/bin/zstd", True),
        ("a.wic.gz", "/bin/gzip", True),
        ("a.wic.gz", "", False),
        ("a.wic", "", True),
    ],
)
def test_what_the_board_cannot_unpack_is_written_by_dd(name: str, unpacker: str, program: bool) -> None:
    packed = packing(Image(source=name, sha256="0" * 64))
    wanted = bmaptool.ask(packed).text
    assert not unpacker or not program or f"command -v {unpacker.rpartition('/')[2]};" in wanted
    assert bmaptool.there(["/usr/bin/bmaptool", unpacker], packed) is program
    assert not bmaptool.there([unpacker], packed)


def test_a_packed_image_on_a_board_without_its_unpacker_takes_dd(tmp_path: Path) -> None:
    board, (given, data) = PlayedBmaptool(tmp_path), content(tmp_path)
    assert given.image is not None
    (tmp_path / "sdk.wic.gz").write_bytes(gzip.compress(data))
    digest = hashlib.sha256((tmp_path / "sdk.wic.gz").read_bytes()).hexdigest()
    packed = Content(evolve(given.image, source=str(tmp_path / "sdk.wic.gz"), sha256=digest))
    chosen = writer(board, tmp_path)
    for board.unpacker, wanted in (("", False), ("/bin/gzip", True)):
        board.typed, board.looks = [], 0
        chosen.write(chosen.plan(packed, TARGET), lambda _progress: None)
        assert ("bmaptool" in board.typed) is wanted


def test_without_it_or_without_a_map_it_is_dd(tmp_path: Path) -> None:
    board, (given, _) = PlayedLinux(tmp_path), content(tmp_path)
    board.breaks["command -v"] = ([], 0)
    chosen = writer(board, tmp_path)
    chosen.write(chosen.plan(given, TARGET), lambda _progress: None)
    assert any(" | dd of=" in command for command in board.typed)


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
    command = bmaptool.ask_result("http://10.0.2.2/image.xz", "http://10.0.2.2/image.bmap", "/dev/mmcblk0")
    with pytest.raises(kind):
        command.judge(lines, status)


@pytest.mark.parametrize("status", [0, 1])
def test_the_end_of_what_it_says_comes_with_its_own_exit_status(tmp_path: Path, status: int) -> None:
    fake = tmp_path / "bmaptool"
    fake.write_text(f"#!/bin/sh\nseq 20 >&2\necho $5\nexit {status}\n")
    fake.chmod(0o755)
    stat = tmp_path / "mmcblk0" / "stat"
    stat.parent.mkdir()
    stat.write_text(STAT.format(1, 24))
    words = ("http://10.0.2.2/image.xz", "http://10.0.2.2/image.bmap", "/dev/mmcblk0")

    def typed(command: Command) -> subprocess.CompletedProcess[str]:
        here = command.text.replace(answers.SPOOL, str(tmp_path / "piece")).replace("/sys/class/block", str(tmp_path))
        path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run(["sh", "-c", here], env=path, capture_output=True, text=True, check=False)

    assert typed(bmaptool.start(*words)).stdout == ""
    while not (now := bmaptool.progress(typed(bmaptool.look("/dev/mmcblk0")).stdout.splitlines())).ended:
        assert now.written == 24 * 512
    assert now.written == 24 * 512
    done = typed(bmaptool.ask_result(*words))
    assert (done.returncode, done.stdout.split()) == (status, ["16", "17", "18", "19", "20", "/dev/mmcblk0"])
