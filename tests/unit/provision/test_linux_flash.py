"""From Linux onto flash: what mtd-utils 2.1.5 said on the QEMU board's flash (Linux 6.1, `flash_erase`, `flashcp`, `ubi*`), played."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest
from attrs import define, field

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaBadBlockError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TargetRefusedError,
)
from lab.provision.release import Content, Part, PartPlace
from lab.provision.writer import WriteTarget
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers import linuxubi as flash
from lab.provision.writers.linux import FolderServer, LinuxWriter, OverHttp

TARGET = WriteTarget("b1", "any", "ospi")
SIZE, ERASE = 4 << 20, 0x40000
PROC_MTD = 'dev:    size   erasesize  name\nmtd0: 00400000 00040000 "ospi"\n/sys/class/mtd/mtd0/type:nor'
COPIED = ["Erasing blocks: 6/6 (100%)", "Writing data: 1300k/1300k (100%)", "Verifying data: 1290k/1300k (99%)"]
VERIFIED = [*COPIED, "Verifying data: 1300k/1300k (100%)"]
NO_UBI = [
    "[    3.773506] ubi0 error: ubi_read_volume_table [ubi]: the layout volume was not found",
    "[    3.776246] ubi0 error: ubi_attach_mtd_dev [ubi]: failed to attach mtd0, error -22",
    'ubiattach: error!: cannot attach "/dev/mtd0"',
    "           error 22 (Invalid argument)",
]
ATTACHED = [
    "UBI device number 0, total 256 LEBs (67076096 bytes, 63.9 MiB), available 252 LEBs (66028032 bytes, 62.9 MiB), LEB size 262016 "
    "bytes (255.8 KiB)"
]
AGAIN = [
    "[    3.276783] ubi: mtd0 is already attached to ubi0",
    'ubiattach: error!: cannot attach "/dev/mtd0"',
    "           error 17 (File exists)",
]
MADE = [
    "Set volume size to 66028032",
    'Volume ID 0, size 252 LEBs (66028032 bytes, 62.9 MiB), LEB size 262016 bytes (255.8 KiB), dynamic, name "rootfs", alignment 1',
]


@define
class PlayedFlash:
    """A board whose only flash, and the UBI volume in it, are bytes here."""

    spool: Path
    chip: bytearray = field(factory=lambda: bytearray(b"\x5a" * SIZE))
    volume: bytes = b""
    has_ubi: bool = False
    unreadable: str = ""
    absent: tuple[str, ...] = ()
    is_attached: bool = False
    has_volume: bool = False
    mounts: str = "none / rootfs rw 0 0"
    proc_mtd: str = PROC_MTD
    free: int = 200 << 20
    typed: list[str] = field(factory=list)
    breaks: dict[str, tuple[list[str], int]] = field(factory=dict)

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        del timeout
        self.typed.append(cmd)
        for begin, (lines, status) in self.breaks.items():
            if cmd.startswith(begin):
                return lines, [], status
        lines, status = self._answer(cmd)
        return lines, [], status

    def _answer(self, cmd: str) -> tuple[list[str], int]:
        numbers = [int(each, 0) for each in re.findall(r"(?<==)\d+|(?<= )0x[0-9a-f]+|(?<= )\d+(?!>)", cmd)]
        answered: tuple[list[str], int] = getattr(self, "_" + re.split(r"\W", cmd.removeprefix("{ "), maxsplit=1)[0])(
            cmd, numbers
        )
        return answered

    def _attachments(self) -> list[str]:
        return ["/sys/class/ubi/ubi0/mtd_num:0"] if self.is_attached else []

    def _rm(self, cmd: str, numbers: list[int]) -> tuple[list[str], int]:
        return self._grep(cmd, numbers)

    def _cat(self, cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        return (self.proc_mtd if "/proc/mtd" in cmd else self.mounts).split("\n") + self._attachments(), 0

    def _grep(self, cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        if "MemAvailable" in cmd:
            self.spool.unlink(missing_ok=True)
            return [f"MemAvailable:   {self.free >> 10} kB"], 0
        volume = ["name:rootfs", "reserved_ebs:2", "usable_eb_size:262016"] if self.has_volume else []
        room = ["avail_eraseblocks:1", "eraseblock_size:262016"] if self.is_attached else []
        of_ubi = [f"/sys/class/ubi/ubi0/{each}" for each in room]
        return [*self._attachments(), *of_ubi, *(f"/sys/class/ubi/ubi0_0/{each}" for each in volume)], 0

    def _for(self, cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        return [f"no program {each}" for each in self.absent if f" {each}" in cmd.partition(";")[0]], 0

    def _wget(self, cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        self.spool.write_bytes(Path(cmd.rsplit(maxsplit=1)[-1]).read_bytes())
        return [], 0

    def _sha256sum(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        return digest(self.spool.read_bytes())

    def _sync(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        return [], 0

    def _flash_erase(self, _cmd: str, numbers: list[int]) -> tuple[list[str], int]:
        at, count = numbers
        self.chip[at : at + count * ERASE] = b"\xff" * (count * ERASE)
        return [], 0

    def _flashcp(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        self.chip[: self.spool.stat().st_size] = self.spool.read_bytes()
        return VERIFIED, 0

    def _dd(self, cmd: str, numbers: list[int]) -> tuple[list[str], int]:
        if f"if={answers.SPOOL}" not in cmd:
            size, skip, _blocks, count = numbers
            return digest(self.chip[size * skip :][:count])
        data, (size, seek) = self.spool.read_bytes(), numbers
        assert set(self.chip[seek * size : seek * size + len(data)]) == {0xFF}, "written where nothing was erased"
        self.chip[seek * size : seek * size + len(data)] = data
        whole, rest = divmod(len(data), size)
        return [f"{whole}+{int(rest > 0)} records in", f"{whole}+{int(rest > 0)} records out"], 0

    def _head(self, _cmd: str, numbers: list[int]) -> tuple[list[str], int]:
        return digest(self.volume[: numbers[0]])

    def _i(self, cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        chip = self.spool.with_name("chip")
        chip.write_bytes(self.chip)
        here = cmd.replace("/dev/mtd0", str(self.unreadable or chip))
        done = subprocess.run(["sh", "-c", here], capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).splitlines(), done.returncode

    def _ubiattach(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        found = AGAIN if self.is_attached else ATTACHED if self.has_ubi else NO_UBI
        self.is_attached = self.has_ubi
        return found, 0 if found is ATTACHED else 255

    def _ubidetach(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        self.is_attached = False
        return [], 0

    def _ubiformat(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        self.has_ubi, self.has_volume = True, False
        return [], 0

    def _ubimkvol(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        self.has_volume = True
        return MADE, 0

    def _ubiupdatevol(self, _cmd: str, _numbers: list[int]) -> tuple[list[str], int]:
        assert self.has_volume
        self.volume = self.spool.read_bytes()
        return [], 0


def digest(data: bytes | bytearray) -> tuple[list[str], int]:
    return [f"{hashlib.sha256(data).hexdigest()}  -"], 0


def writer(board: PlayedFlash, folder: Path, device: str) -> LinuxWriter:
    return LinuxWriter("linux-http", device, OverHttp(FolderServer(folder, str(folder))), lambda: board, lambda: None)


def part(folder: Path, name: str, data: bytes, to: PartPlace) -> Part:
    (folder / name).write_bytes(data)
    return Part(name=name, source=str(folder / name), sha256=hashlib.sha256(data).hexdigest(), size=len(data), to=to)


def put(chosen: LinuxWriter, content: Content) -> None:
    plan = chosen.plan(content, TARGET)
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == plan.total_bytes


@pytest.fixture
def board(tmp_path: Path) -> PlayedFlash:
    return PlayedFlash(tmp_path / "spool")


def test_parts_by_offset_are_erased_and_written_and_nothing_else_is(board: PlayedFlash, tmp_path: Path) -> None:
    kernel, env = os.urandom(ERASE + 5), os.urandom(4096)
    put(
        writer(board, tmp_path, "/dev/mtd0"),
        Content(
            parts=[
                part(tmp_path, "kernel", kernel, PartPlace(offset=2 * ERASE)),
                part(tmp_path, "u-boot.env", env, PartPlace(offset=0)),
            ]
        ),
    )
    expected = bytearray(b"\x5a" * SIZE)
    expected[0:ERASE] = env + b"\xff" * (ERASE - len(env))
    expected[2 * ERASE : 4 * ERASE] = kernel + b"\xff" * (2 * ERASE - len(kernel))
    assert board.chip == expected


def test_a_part_by_the_name_of_its_partition_is_copied_and_read_back_twice(board: PlayedFlash, tmp_path: Path) -> None:
    data = os.urandom(70_000)
    chosen = writer(board, tmp_path, "mtd")
    put(chosen, Content(parts=[part(tmp_path, "tispl.bin", data, PartPlace(mtd="ospi"))]))
    assert board.chip[: len(data)] == data
    board.chip[7] ^= 1
    plan = chosen.plan(Content(parts=[part(tmp_path, "tispl.bin", data, PartPlace(mtd="ospi"))]), TARGET)
    with pytest.raises(MediaVerifyFailedError, match=r"tispl\.bin"):
        chosen.verify(plan)


@pytest.mark.parametrize(("has_ubi", "has_volume"), [(False, False), (True, False), (True, True)])
def test_a_volume_is_made_where_it_is_not_there(
    board: PlayedFlash, tmp_path: Path, has_ubi: bool, has_volume: bool
) -> None:
    board.has_ubi, board.has_volume = has_ubi, has_volume
    data = os.urandom(70_000)
    put(
        writer(board, tmp_path, "mtd"),
        Content(parts=[part(tmp_path, "rootfs.ubifs", data, PartPlace(mtd="ospi", volume="rootfs"))]),
    )
    assert board.volume == data
    assert any(command.startswith("ubiformat") for command in board.typed) is not has_ubi
    assert any(command.startswith("ubimkvol") for command in board.typed) is not has_volume


def test_reading_back_writes_nothing(board: PlayedFlash, tmp_path: Path) -> None:
    content = Content(parts=[part(tmp_path, "rootfs.ubifs", b"data", PartPlace(mtd="ospi", volume="rootfs"))])
    chosen = writer(board, tmp_path, "mtd")
    plan = chosen.plan(content, TARGET)
    for board.has_ubi in (False, True):
        with pytest.raises(MediaMissingError, match="no UBI volume rootfs"):
            chosen.verify(plan)
    assert not [command for command in board.typed if re.match(r"ubiformat|ubimkvol|ubiupdatevol|flash", command)]


ROOTFS = PartPlace(mtd="ospi", volume="rootfs")


@pytest.mark.parametrize(("block", "header"), [(0, 64), (5, 2048), (SIZE // ERASE - 1, 64), (None, 0)])
def test_a_ubi_that_does_not_attach_is_refused_before_the_first_byte(
    board: PlayedFlash, tmp_path: Path, block: int | None, header: int
) -> None:
    if block is None:
        board.unreadable = str(tmp_path)  # dd: Is a directory
    else:
        board.chip[block * ERASE : block * ERASE + 4] = b"UBI#"
        board.chip[block * ERASE + header : block * ERASE + header + 4] = b"UBI!"
    content = Content(parts=[part(tmp_path, "rootfs.ubifs", b"data", ROOTFS)])
    with pytest.raises(TargetRefusedError, match=r"attach; nothing"):
        writer(board, tmp_path, "mtd").plan(content, TARGET)
    assert not any(command.startswith("ubiformat") for command in board.typed)


def test_a_format_that_was_cut_short_is_begun_anew(board: PlayedFlash, tmp_path: Path) -> None:
    for block in range(SIZE // ERASE // 2):
        board.chip[block * ERASE : (block + 1) * ERASE] = b"UBI#" + b"\xff" * (ERASE - 4)
    data = os.urandom(70_000)
    put(writer(board, tmp_path, "mtd"), Content(parts=[part(tmp_path, "rootfs.ubifs", data, ROOTFS)]))
    assert board.volume == data


def test_an_attach_that_fails_otherwise_is_told_before_the_first_byte(board: PlayedFlash, tmp_path: Path) -> None:
    board.breaks["ubiattach"] = (['ubiattach: error!: cannot attach "/dev/mtd0"', "error 5 (Input/output error)"], 255)
    with pytest.raises(MediaWriteFailedError, match="Input/output error"):
        writer(board, tmp_path, "mtd").plan(Content(parts=[part(tmp_path, "rootfs.ubifs", b"data", ROOTFS)]), TARGET)
    assert not any(command.startswith(("ubiformat", "ubimkvol", "ubiupdatevol")) for command in board.typed)


@pytest.mark.parametrize(
    ("device", "mounts", "attached"),
    [
        ("/dev/mtd0", "/dev/mtdblock3 / jffs2 ro 0 0", False),
        ("/dev/mtd0", "ubi0:rootfs / ubifs rw 0 0", True),
        ("/dev/mtd0", "none / rootfs rw 0 0", True),
        ("mtd", "ubi0:rootfs / ubifs rw 0 0", True),
        ("mtd", "/dev/ubi0_0 /mnt ubifs rw 0 0", True),
        ("mtd", "mtd0 / jffs2 rw 0 0", False),
    ],
)
def test_a_flash_that_linux_uses_is_refused(
    board: PlayedFlash, tmp_path: Path, device: str, mounts: str, attached: bool
) -> None:
    board.mounts, board.is_attached = mounts, attached
    to = PartPlace(mtd="ospi") if device == "mtd" else PartPlace(offset=0)
    with pytest.raises(TargetRefusedError):
        writer(board, tmp_path, device).plan(Content(parts=[part(tmp_path, "tispl.bin", b"data", to)]), TARGET)


@pytest.mark.parametrize(
    ("device", "to", "size", "kind"),
    [
        ("/dev/mtd0", PartPlace(offset=0x100), 10, ConfigurationError),
        ("/dev/mtd0", PartPlace(offset=SIZE - ERASE), ERASE + 1, ImageTooLargeError),
        ("/dev/mtd7", PartPlace(offset=0), 10, MediaMissingError),
        ("/dev/mtd0", PartPlace(mtd="ospi"), 10, ConfigurationError),
        ("mtd", PartPlace(mtd="nothing"), 10, MediaMissingError),
        ("mtd", PartPlace(mtd="ospi"), SIZE + 1, ImageTooLargeError),
        ("mtd", PartPlace(offset=0), 10, ConfigurationError),
        ("somewhere", PartPlace(offset=0), 10, ConfigurationError),
    ],
)
def test_what_has_no_place_is_refused_before_the_first_byte(
    board: PlayedFlash, tmp_path: Path, device: str, to: PartPlace, size: int, kind: type[BoardlabError]
) -> None:
    with pytest.raises(kind):
        writer(board, tmp_path, device).plan(Content(parts=[part(tmp_path, "tispl.bin", bytes(size), to)]), TARGET)
    assert board.chip == b"\x5a" * SIZE


def test_a_name_that_two_partitions_have_is_refused_and_another_is_not(board: PlayedFlash, tmp_path: Path) -> None:
    board.proc_mtd = PROC_MTD + '\nmtd1: 00400000 00040000 "env"\nmtd2: 00400000 00040000 "env"'
    chosen = writer(board, tmp_path, "mtd")
    with pytest.raises(TargetRefusedError, match="/dev/mtd1 and /dev/mtd2"):
        chosen.plan(Content(parts=[part(tmp_path, "uboot.env", b"data", PartPlace(mtd="env"))]), TARGET)
    chosen.plan(Content(parts=[part(tmp_path, "tispl.bin", b"data", PartPlace(mtd="ospi"))]), TARGET)


@pytest.mark.parametrize(
    ("device", "to", "program"),
    [
        ("/dev/mtd0", PartPlace(offset=0), "flash_erase"),
        ("mtd", PartPlace(mtd="ospi"), "flashcp"),
        ("mtd", PartPlace(mtd="ospi", volume="rootfs"), "ubiupdatevol"),
    ],
)
def test_a_board_without_the_program_is_refused_before_the_first_byte(
    board: PlayedFlash, tmp_path: Path, device: str, to: PartPlace, program: str
) -> None:
    content, chosen = Content(parts=[part(tmp_path, "tispl.bin", b"data", to)]), writer(board, tmp_path, device)
    board.absent = ("nandwrite",)
    chosen.plan(content, TARGET)
    board.absent = (program,)
    with pytest.raises(ConfigurationError, match=f"has no {program}; nothing was written"):
        chosen.plan(content, TARGET)


def test_the_programs_are_asked_for_by_a_shell() -> None:
    command = flash.ask(PartPlace(mtd="ospi", volume="rootfs"))
    done = subprocess.run(
        ["/bin/sh", "-c", command.text], env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    with pytest.raises(ConfigurationError, match=r"ubiattach.*ubiupdatevol"):
        command.judge(done.stdout.splitlines(), done.returncode)


def test_a_volume_that_is_too_small_is_refused_before_the_first_byte(board: PlayedFlash, tmp_path: Path) -> None:
    board.has_ubi = board.is_attached = board.has_volume = True
    to, chosen = PartPlace(mtd="ospi", volume="rootfs"), writer(board, tmp_path, "mtd")
    chosen.plan(Content(parts=[part(tmp_path, "rootfs.ubifs", bytes(2 * 262016), to)]), TARGET)
    with pytest.raises(ImageTooLargeError, match=r"rootfs on /dev/mtd0.*524"):
        chosen.plan(Content(parts=[part(tmp_path, "rootfs.ubifs", bytes(2 * 262016 + 1), to)]), TARGET)


def test_another_volume_than_that_which_is_there_takes_the_room_that_is_left_or_is_refused(
    board: PlayedFlash, tmp_path: Path
) -> None:
    board.has_ubi = board.has_volume = True
    chosen, to = writer(board, tmp_path, "mtd"), PartPlace(mtd="ospi", volume="data")
    chosen.plan(Content(parts=[part(tmp_path, "data.ubifs", bytes(262016), to)]), TARGET)
    with pytest.raises(ImageTooLargeError, match=r"no UBI .*data .*262016"):
        chosen.plan(Content(parts=[part(tmp_path, "data.ubifs", bytes(262017), to)]), TARGET)


def test_two_volumes_that_would_both_get_all_the_room_are_refused(board: PlayedFlash, tmp_path: Path) -> None:
    parts = [part(tmp_path, name, b"data", PartPlace(mtd="ospi", volume=name)) for name in ("rootfs", "data")]
    with pytest.raises(ConfigurationError, match=r"rootfs and data"):
        writer(board, tmp_path, "mtd").plan(Content(parts=parts), TARGET)
    board.has_ubi = board.has_volume = True
    writer(board, tmp_path, "mtd").plan(Content(parts=parts), TARGET)


def test_nand_takes_volumes_only(board: PlayedFlash, tmp_path: Path) -> None:
    board.proc_mtd = PROC_MTD.replace("type:nor", "type:nand")
    with pytest.raises(ConfigurationError, match="may be bad"):
        writer(board, tmp_path, "mtd").plan(
            Content(parts=[part(tmp_path, "tispl.bin", b"data", PartPlace(mtd="ospi"))]), TARGET
        )


@pytest.mark.parametrize(
    ("begin", "lines", "status", "kind"),
    [
        ("flashcp", COPIED, 0, MediaVerifyFailedError),
        ("flashcp", ["/run/boardlab-piece won't fit into /dev/mtd0!"], 1, ImageTooLargeError),
        (
            "flashcp",
            ["While trying to open /dev/mtd7 for read/write access: No such file or directory"],
            1,
            MediaMissingError,
        ),
        ("flashcp", ["File does not seem to match flash data. First mismatch at 0x00000000-0x00002800"], 1, None),
        ("flashcp", ["sh: flashcp: not found"], 127, ConfigurationError),
    ],
)
def test_what_flashcp_says_has_its_class(
    board: PlayedFlash, tmp_path: Path, begin: str, lines: list[str], status: int, kind: type[BoardlabError] | None
) -> None:
    chosen = writer(board, tmp_path, "mtd")
    plan = chosen.plan(Content(parts=[part(tmp_path, "tispl.bin", b"data", PartPlace(mtd="ospi"))]), TARGET)
    board.breaks[begin] = (lines, status)
    with pytest.raises(kind or MediaWriteFailedError):
        chosen.write(plan, lambda _progress: None)


@pytest.mark.parametrize(
    ("begin", "lines", "kind"),
    [
        (
            "ubiupdatevol",
            ['ubiupdatevol: error!: "/run/big" (size 73400320) will not fit volume "/dev/ubi0_0" (size 66028032)'],
            ImageTooLargeError,
        ),
        (
            "ubiupdatevol",
            ['libubi: error!: cannot get information about "/dev/ubi0_1"', "        error 2 (No such file or directory)"],
            MediaMissingError,
        ),
        ("ubimkvol", ["ubimkvol: error!: cannot UBI create volume", "          error 28 (No space left on device)"], ImageTooLargeError),
        ("ubiformat", ["ubiformat: error!: bad eraseblock 7"], MediaBadBlockError),
    ],
)  # fmt: skip
def test_what_ubi_says_has_its_class(
    board: PlayedFlash, tmp_path: Path, begin: str, lines: list[str], kind: type[BoardlabError]
) -> None:
    chosen = writer(board, tmp_path, "mtd")
    content = Content(parts=[part(tmp_path, "rootfs.ubifs", b"data", PartPlace(mtd="ospi", volume="rootfs"))])
    plan = chosen.plan(content, TARGET)
    board.breaks[begin] = (lines, 255)
    with pytest.raises(kind):
        chosen.write(plan, lambda _progress: None)


def test_a_name_cannot_become_a_command() -> None:
    with pytest.raises(ConfigurationError):
        answers.write("/dev/mtd3; reboot", 0, 1)
    assert flash.partitions(['mtd0: 00400000 00040000 "ospi"'])[0].device == "/dev/mtd0"
