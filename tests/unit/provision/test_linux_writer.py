"""From a Linux on the board, which is played by this host's own shell, dd, wget's likeness and sha256sum on a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TargetRefusedError,
    TftpTimeoutError,
)
from lab.provision.release import Content, Image, Part, PartPlace
from lab.provision.writer import WriteTarget
from lab.provision.writers import linuxanswers as answers
from lab.provision.writers.command import carry_out
from lab.provision.writers.linux import FolderServer, LinuxWriter, OverHttp

DEVICE = "/dev/mmcblk0"
TARGET = WriteTarget("b1", "any", "emmc")


class PlayedLinux:
    """Runs the commands of a way here, with the device and the piece's file in a folder."""

    def __init__(self, folder: Path, size: int = 8 << 20) -> None:
        self.card, self.spool, self.mounts = folder / "card", folder / "piece", "rootfs / rootfs rw 0 0"
        self.card.write_bytes(b"\xa5" * size)
        self.typed: list[str] = []
        self.free = 200 << 20
        self.df: list[str] = []
        self.breaks: dict[str, tuple[list[str], int]] = {}

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """As labgrid's ShellDriver."""
        del timeout
        self.typed.append(cmd)
        for begin, (lines, status) in self.breaks.items():
            if cmd.startswith(begin):
                return lines, [], status
        if cmd.startswith("cat /proc/mounts"):
            return self.mounts.split("\n"), [], 0
        if cmd.startswith("cat /sys/class/block/mmcblk0/size"):
            return [str(self.card.stat().st_size // 512)], [], 0
        if "drop_caches" in cmd:
            return [], [], 0
        if "MemAvailable" in cmd:
            return [*self.df, f"MemAvailable:   {self.free >> 10} kB"], [], 0
        here = (
            cmd.replace(DEVICE, str(self.card))
            .replace(answers.SPOOL, str(self.spool))
            .replace("wget -q -O - ", "2>/dev/null cat ")
            .replace("wget -q -O", "cp -T --")
        )
        if here.startswith("cp"):
            _, _, _, to, source = here.split()
            here = f"cp {source} {to}"
        done = subprocess.run(
            ["sh", "-c", here], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        return (done.stdout + done.stderr).splitlines(), [], done.returncode


def writer(board: PlayedLinux, folder: Path) -> LinuxWriter:
    return LinuxWriter("linux-http", DEVICE, OverHttp(FolderServer(folder, str(folder))), lambda: board, lambda: None)


def image(folder: Path, data: bytes) -> Content:
    (folder / "sdk.wic").write_bytes(data)
    return Content(Image(source=str(folder / "sdk.wic"), sha256=hashlib.sha256(data).hexdigest(), size=len(data)))


def a_part(folder: Path, data: bytes, offset: int) -> Part:
    (folder / "u-boot.img").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return Part(name="u-boot.img", source=str(folder / "u-boot.img"), sha256=digest, to=PartPlace(offset=offset))


def test_an_image_is_fetched_written_and_read_back(tmp_path: Path) -> None:
    board, data = PlayedLinux(tmp_path, 20 << 20), os.urandom((17 << 20) + 512)
    chosen = writer(board, tmp_path)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    assert plan.target.size_bytes == 20 << 20
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).digest == hashlib.sha256(data).hexdigest()
    assert board.card.read_bytes() == data + b"\xa5" * ((20 << 20) - len(data))
    with board.card.open("r+b") as file:
        file.seek(17 << 20)
        file.write(bytes([data[17 << 20] ^ 1]))
    with pytest.raises(MediaVerifyFailedError, match="0x1000000"):
        chosen.verify(plan)


@pytest.mark.parametrize(
    "mounts", ["/dev/mmcblk0p2 / ext4 rw 0 0", "/dev/mmcblk0 /mnt ext4 rw 0 0", "/dev/mmcblk0p3 partition 1 0 -2"]
)
def test_the_medium_that_linux_runs_from_is_refused(tmp_path: Path, mounts: str) -> None:
    board = PlayedLinux(tmp_path)
    board.mounts = mounts
    with pytest.raises(TargetRefusedError, match="boot_from"):
        writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)
    assert not any(command.startswith("dd") for command in board.typed)


NUMBERS = "/sys/class/block/mmcblk0/dev:179:0\n/sys/class/block/mmcblk0/mmcblk0p2/dev:179:2"


@pytest.mark.parametrize(
    ("mounts", "refused"),
    [
        (f"/dev/root / ext4 rw 0 0\n22 1 179:2 / / rw - ext4 /dev/root rw\n{NUMBERS}", True),
        (f"/dev/root / ext4 rw 0 0\n22 1 179:98 / / rw - ext4 /dev/root rw\n{NUMBERS}", False),
        ("/dev/root / ext4 rw 0 0", True),
    ],
)
def test_a_root_that_the_kernel_mounted_itself_is_known_by_its_number(
    tmp_path: Path, mounts: str, refused: bool
) -> None:
    board = PlayedLinux(tmp_path)
    board.mounts = mounts
    if not refused:
        writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)
        return
    with pytest.raises(TargetRefusedError, match="boot_from"):
        writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)


@pytest.mark.parametrize("held", ["mmcblk0/holders/md0", "mmcblk0/mmcblk0p2/holders/dm-0"])
def test_a_disk_that_another_device_is_made_of_is_refused(tmp_path: Path, held: str) -> None:
    board = PlayedLinux(tmp_path)
    board.mounts = f"/dev/mapper/root / ext4 rw 0 0\n22 1 254:0 / / rw - ext4 /dev/mapper/root rw\n{NUMBERS}"
    writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)
    board.mounts += f"\n/sys/class/block/{held}"
    with pytest.raises(TargetRefusedError, match=held.rpartition("/")[2]):
        writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)


def test_its_holders_are_asked_for_and_none_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "mmcblk0" / "mmcblk0p2" / "holders").mkdir(parents=True)
    text = answers.ask_uses(DEVICE).text.replace("/sys/class/block", str(tmp_path))

    def holders() -> list[str]:
        said = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True).stdout
        return [line for line in said.splitlines() if str(tmp_path) in line]

    assert holders() == []
    (tmp_path / "mmcblk0" / "mmcblk0p2" / "holders" / "dm-0").mkdir()
    assert [line.removeprefix(str(tmp_path)) for line in holders()] == ["/mmcblk0/mmcblk0p2/holders/dm-0"]


def test_another_disk_with_a_like_name_is_no_reason_to_refuse(tmp_path: Path) -> None:
    board = PlayedLinux(tmp_path)
    board.mounts = "/dev/mmcblk01 /mnt ext4 rw 0 0\n/dev/mmcblk1p1 / ext4 rw 0 0"
    writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)


def test_an_image_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageTooLargeError):
        writer(PlayedLinux(tmp_path, 4096), tmp_path).plan(image(tmp_path, bytes(8192)), TARGET)


@pytest.mark.parametrize(
    ("begin", "lines", "status", "kind"),
    [
        ("wget", ["wget: can't connect to remote host (10.0.2.2): Connection refused"], 1, TftpTimeoutError),
        ("wget", ["sh: wget: not found"], 127, ConfigurationError),
        ("sha256sum", ["0" * 64 + "  /run/boardlab-piece"], 0, MediaVerifyFailedError),
        ("dd", ["dd: can't open '/dev/mmcblk0': Read-only file system"], 1, MediaWriteProtectedError),
        (
            "dd",
            ["dd: error writing '/dev/mmcblk0': No space left on device", "0+0 records out"],
            1,
            ImageTooLargeError,
        ),
        ("dd", ["dd: can't open '/dev/mmcblk0': No such file or directory"], 1, MediaMissingError),
        ("dd", ["0+1 records in", "0+0 records out"], 0, MediaWriteFailedError),
        ("dd", [], 0, MediaWriteFailedError),
        ("dd", ["dd: error writing '/dev/mmcblk0': Input/output error"], 1, MediaWriteFailedError),
    ],
)
def test_what_linux_says_has_its_class(
    tmp_path: Path, begin: str, lines: list[str], status: int, kind: type[BoardlabError]
) -> None:
    board = PlayedLinux(tmp_path)
    chosen = writer(board, tmp_path)
    plan = chosen.plan(Content(None, [a_part(tmp_path, bytes(4096), 0)]), TARGET)
    board.breaks[begin] = (lines, status)
    with pytest.raises(kind):
        chosen.write(plan, lambda _progress: None)


@pytest.mark.parametrize(
    ("begin", "lines", "status", "kind"),
    [
        (
            "{ wget",
            ["wget: can't connect to remote host", "boardlab-first 1", "0+0 records out"],
            0,
            TftpTimeoutError,
        ),
        ("{ wget", ["0+8 records in", "0+1 records out"], 0, TftpTimeoutError),
        (
            "{ wget",
            ["dd: error writing '/dev/mmcblk0': No space left on device", "boardlab-first 141"],
            1,
            ImageTooLargeError,
        ),
        (
            "{ wget",
            ["wget: can't connect to remote host: Operation not permitted", "boardlab-first 1", "0+0 records out"],
            0,
            TftpTimeoutError,
        ),
        ("{ wget", ["sh: wget: not found", "boardlab-first 127", "0+0 records out"], 0, ConfigurationError),
        (
            "{ wget",
            [
                "wget: error getting response: Connection reset by peer",
                "boardlab-first 1",
                "dd: /dev/mmcblk0: I/O error",
            ],
            1,
            MediaWriteFailedError,
        ),
        ("{ wget", ["dd: can't open '/dev/mmcblk0': Read-only file system"], 1, MediaWriteProtectedError),
        ("{ wget", ["dd: error writing '/dev/mmcblk0': Input/output error"], 1, MediaWriteFailedError),
        ("{ wget", [], 0, MediaWriteFailedError),
        ("dd if=/dev/null", ["dd: fsync failed for '/dev/mmcblk0': Input/output error"], 1, MediaWriteFailedError),
    ],
)
def test_what_linux_says_of_an_image_that_is_written_as_it_comes_has_its_class(
    tmp_path: Path, begin: str, lines: list[str], status: int, kind: type[BoardlabError]
) -> None:
    board = PlayedLinux(tmp_path)
    chosen = writer(board, tmp_path)
    plan = chosen.plan(image(tmp_path, bytes(3 << 20)), TARGET)
    board.breaks[begin] = (lines, status)
    with pytest.raises(kind):
        chosen.write(plan, lambda _progress: None)


def test_a_server_that_is_gone_is_told_from_a_medium_that_fails(tmp_path: Path) -> None:
    """The pipe as the board's shell runs it."""
    board = PlayedLinux(tmp_path)
    with pytest.raises(TftpTimeoutError, match="could not load it"):
        carry_out(board, answers.stream(str(tmp_path / "gone"), DEVICE, 0, 4096))
    (tmp_path / "short").write_bytes(bytes(1000))
    with pytest.raises(TftpTimeoutError, match=r"not all of 4096 bytes"):
        carry_out(board, answers.stream(str(tmp_path / "short"), DEVICE, 512, 4096))
    assert board.card.read_bytes()[512:2000] == bytes(1000) + b"\xa5" * 488


def _bad_medium(folder: Path) -> dict[str, str]:
    """A `dd` that ends as on a medium that cannot be read: the shell's own pipe, with an answer recorded of coreutils on a bad disk."""
    folder.mkdir()
    program = folder / "dd"
    program.write_text(
        "#!/bin/sh\necho \"dd: error reading '/dev/mmcblk0': Input/output error\" >&2\necho '0+0 records in' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "LC_ALL": "C"}


def test_a_medium_that_cannot_be_read_is_told_from_one_that_has_something_else(tmp_path: Path) -> None:
    """Both ends of the pipe, as a shell without `pipefail` runs it."""
    card, data = tmp_path / "card", os.urandom(3 << 20)
    card.write_bytes(data)
    command = answers.compare(
        DEVICE, 1 << 20, (1 << 20) + 5, hashlib.sha256(data[1 << 20 : (2 << 20) + 5]).hexdigest(), "it"
    )

    def carried_out(env: dict[str, str]) -> None:
        words = ["sh", "-c", command.text.replace(DEVICE, str(card))]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        command.judge([*done.stdout.splitlines(), *done.stderr.splitlines()], done.returncode)

    carried_out({**os.environ, "LC_ALL": "C"})
    with pytest.raises(MediaWriteFailedError, match=r"Input/output error"):
        carried_out(_bad_medium(tmp_path / "bin"))
    card.write_bytes(os.urandom(3 << 20))
    with pytest.raises(MediaVerifyFailedError, match="the board computes"):
        carried_out({**os.environ, "LC_ALL": "C"})


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["dd: error reading '/dev/mmcblk0': Input/output error", "boardlab-first 1"], MediaWriteFailedError),
        (["dd: can't open '/dev/mmcblk0': No such file or directory", "boardlab-first 1"], MediaMissingError),
        (["dd: error writing 'standard output': Broken pipe", "boardlab-first 1"], MediaVerifyFailedError),
        (["boardlab-first 141"], MediaVerifyFailedError),
        (["4+0 records in", "boardlab-first 0"], MediaVerifyFailedError),
        ([], MediaVerifyFailedError),
    ],
)
def test_what_a_read_says_beside_another_digest_is_its_class(lines: list[str], kind: type[BoardlabError]) -> None:
    with pytest.raises(kind):
        answers.compare(DEVICE, 0, 4096, "a" * 64, "it").judge([*lines, f"{'b' * 64}  -"], 0)
    answers.compare(DEVICE, 0, 4096, "b" * 64, "it").judge([*lines, f"{'b' * 64}  -"], 0)


@pytest.mark.parametrize(
    ("lines", "status", "kind"),
    [
        (["wget: short write: No space left on device"], 1, ConfigurationError),
        (["wget: can't connect to remote host (10.0.2.2): Network is unreachable"], 1, TftpTimeoutError),
        (["sh: wget: not found"], 127, ConfigurationError),
    ],
)
def test_a_linux_without_a_network_is_refused_before_the_first_byte(
    tmp_path: Path, lines: list[str], status: int, kind: type[BoardlabError]
) -> None:
    board = PlayedLinux(tmp_path)
    board.breaks["wget"] = (lines, status)
    with pytest.raises(kind):
        writer(board, tmp_path).plan(image(tmp_path, bytes(4096)), TARGET)
    assert not any(command.startswith("dd") for command in board.typed)


def test_a_board_with_little_memory_gets_smaller_pieces_or_none(tmp_path: Path) -> None:
    board, data = PlayedLinux(tmp_path, 20 << 20), os.urandom(5 << 20)
    board.free = 10 << 20
    chosen = writer(board, tmp_path)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    chosen.write(plan, lambda _progress: None)
    assert sum(" | dd of=" in command for command in board.typed) == 1, "what comes as it is written takes no memory"
    chosen.verify(plan)
    assert sum(" | sha256sum" in command for command in board.typed) == 3
    board.free = 4 << 20
    with pytest.raises(ConfigurationError, match="memory free"):
        chosen.plan(image(tmp_path, data), TARGET)


@pytest.mark.parametrize(
    ("df", "kib"),
    [
        (["Filesystem     1024-blocks      Used Available Capacity Mounted on", "tmpfs  16384 8 9216 1% /run"], 9216),
        (["tmpfs 999999 0 999999 0% /run"], 200 << 10),
        (["rootfs 0 0 0 0% /"], 200 << 10),  # ramfs
        (["rootfs 0 0 0 - /"], 200 << 10),
        ([], 200 << 10),  # no df
    ],
)
def test_a_piece_may_be_no_larger_than_what_run_has_free(tmp_path: Path, df: list[str], kib: int) -> None:
    board = PlayedLinux(tmp_path, 20 << 20)
    board.df = df
    assert answers.memory_bytes(board.run(answers.memory().text)[0]) == kib << 10
    chosen = writer(board, tmp_path)
    chosen.write(chosen.plan(Content(None, [a_part(tmp_path, bytes(2 << 20), 0)]), TARGET), lambda _progress: None)
    assert sum(command.startswith(f"dd if={answers.SPOOL}") for command in board.typed) == (2 if kib == 9216 else 1)


def test_an_offset_within_a_sector_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    board = PlayedLinux(tmp_path)
    odd = a_part(tmp_path, b"u", 100)
    with pytest.raises(ConfigurationError, match="multiple of 512"):
        writer(board, tmp_path).plan(Content(None, [odd]), TARGET)
    assert board.typed == []


def test_what_a_later_part_overwrote_of_the_image_is_not_read_back(tmp_path: Path) -> None:
    board, data = PlayedLinux(tmp_path), os.urandom(3 << 20)
    inner = a_part(tmp_path, b"u" * 700, 1 << 20)
    chosen = writer(board, tmp_path)
    plan = chosen.plan(Content(image(tmp_path, data).image, [inner]), TARGET)
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == len(data) - 1024 + 700
    with board.card.open("r+b") as file:
        file.seek((1 << 20) + 1024)
        file.write(bytes([data[(1 << 20) + 1024] ^ 1]))
    with pytest.raises(MediaVerifyFailedError):
        chosen.verify(plan)
