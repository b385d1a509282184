"""From U-Boot over the network, on a U-Boot that is played: memory, an NVMe and a flash that forgets what it is told to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.playeduboot import BASE, TARGET, PlayedUBoot, content, image, part, writer

from lab.errors import ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    TftpTimeoutError,
)
from lab.provision.release import Content, ExtCsd, Image, PartPlace
from lab.provision.writer import WriteProgress


@pytest.mark.parametrize("with_hash", [True, False])
def test_an_image_is_written_in_pieces_that_fit_the_memory_and_read_back(tmp_path: Path, with_hash: bool) -> None:
    board, data, seen = (
        PlayedUBoot(tmp_path, with_hash=with_hash),
        content(33 << 20)[: 33 << 20],
        list[WriteProgress](),
    )
    chosen = writer(board)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    assert plan.target.size_bytes == 40 << 20
    chosen.write(plan, seen.append)
    verified = chosen.verify(plan)
    assert bytes(board.disk[: len(data)]) == data
    assert (verified.digest, verified.bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert verified.method == ("full" if with_hash else "crc32")
    assert seen[-1].done == len(data)
    loads = [command for command in board.typed if command.startswith("tftpboot")]
    assert len(loads) > 1
    assert "setenv tftpdstp 6969" in board.typed
    assert not any("saveenv" in command for command in board.typed)
    assert {path.name for path in tmp_path.iterdir()} == {"sdk.wic"}


def test_a_medium_that_says_ok_and_has_something_else_is_not_verified(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    board.forgets = {0}
    chosen = writer(board)
    plan = chosen.plan(image(tmp_path, content(4096)), TARGET)
    chosen.write(plan, lambda _progress: None)
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        chosen.verify(plan)


@pytest.mark.parametrize("medium", ["nvme 0", "cfi 0x4000000"])
def test_a_read_that_says_ok_and_moves_nothing_is_not_verified(tmp_path: Path, medium: str) -> None:
    board = PlayedUBoot(tmp_path)
    chosen = writer(board, medium)
    plan = chosen.plan(image(tmp_path, content(4096)), TARGET)
    chosen.write(plan, lambda _progress: None)
    still: dict[str, bytes] = {}

    def lie(command: str, lines: list[str]) -> list[str]:
        if re.match("nvme read|cp.b 0x4000000 ", command):
            board.memory[:] = still["memory"]
        still["memory"] = bytes(board.memory)
        return lines

    board.spoil = lie
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        chosen.verify(plan)


def test_what_an_earlier_read_left_in_memory_is_not_taken_for_the_medium(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    chosen = writer(board)
    plan = chosen.plan(image(tmp_path, content(3 << 20)), TARGET)
    chosen.write(plan, lambda _progress: None)
    chosen.verify(plan)
    blocks, real = len(board.disk) // 512, board._moved
    board._moved = lambda verb, at, block, count: (  # type: ignore[method-assign]
        [f"nvme read: device 0 block # {block}, count {count} ... {count} blocks read: OK"]
        if verb == "read"
        else real(verb, at, block, count)
    )
    board.disk[:] = bytes(blocks * 512)
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        chosen.verify(plan)


def test_a_volume_is_not_read_back_to_where_it_was_sent_from(tmp_path: Path) -> None:
    board, data = PlayedUBoot(tmp_path), content(4096)
    board.lists["mtd list"] = "* nor0\n  - block size: 0x40000 bytes"
    chosen = writer(board, "mtd nor0")
    volume = part(tmp_path, "root.ubifs", data, PartPlace(mtd="ospi.rootfs", volume="rootfs"))
    chosen.write(chosen.plan(Content(None, [volume]), TARGET), lambda _progress: None)
    chosen.verify(chosen.plan(Content(None, [volume]), TARGET))
    (wrote,) = [command.split()[2] for command in board.typed if command.startswith("ubi write")]
    (read,) = [command.split()[2] for command in board.typed if command.startswith("ubi read")]
    assert int(read, 16) >= int(wrote, 16) + len(data)


def garbling(board: PlayedUBoot) -> Callable[[str, list[str]], list[str]]:
    """One bit of what is loaded is another in the board's memory."""

    def garble(command: str, lines: list[str]) -> list[str]:
        if command.startswith("tftpboot"):
            board.memory[int(command.split()[1], 16) - BASE] ^= 1
        return lines

    return garble


def test_a_part_that_was_garbled_on_the_way_is_not_written(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    chosen = writer(board)
    plan = chosen.plan(Content(None, [part(tmp_path, "tispl.bin", content(4096), PartPlace(offset=0))]), TARGET)
    board.spoil = garbling(board)
    with pytest.raises(MediaVerifyFailedError, match="loaded"):
        chosen.write(plan, lambda _progress: None)
    assert not any(board.disk)


def test_a_whole_image_that_was_garbled_on_the_way_is_found_when_it_is_read_back(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    chosen = writer(board)
    plan = chosen.plan(image(tmp_path, content(4096)), TARGET)
    board.spoil = garbling(board)
    chosen.write(plan, lambda _progress: None)
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        chosen.verify(plan)


def test_an_image_that_is_too_large_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path, size=1 << 20)
    with pytest.raises(ImageTooLargeError):
        writer(board).plan(image(tmp_path, content(2 << 20)), TARGET)
    assert not any(re.match("nvme write|tftpboot", command) for command in board.typed)


def test_a_flash_is_erased_before_it_is_written_and_its_boot_part_comes_last(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    parts = [
        part(tmp_path, "tiboot3.bin", b"one" * 999, PartPlace(offset=0)),
        part(tmp_path, "rootfs", content(300_000), PartPlace(offset=0x100000)),
    ]
    board.flash[:] = bytes(len(board.flash))
    chosen = writer(board, "cfi 0x4000000")
    plan = chosen.plan(Content(None, parts), TARGET)
    chosen.write(plan, lambda _progress: None)
    chosen.verify(plan)
    assert [step.name for step in plan.steps] == ["rootfs", "tiboot3.bin"]
    assert bytes(board.flash[:2997]) == b"one" * 999
    assert not any(board.flash[0x40000:0x100000])  # what belongs to nobody is as it was


def test_places_that_uboot_cannot_write_are_refused_with_the_reason(tmp_path: Path) -> None:
    board = PlayedUBoot(tmp_path)
    for place, medium in (
        (PartPlace(partition=1), "cfi 0x4000000"),
        (PartPlace(offset=0, hardware="boot0"), "nvme 0"),
        (PartPlace(offset=1), "cfi 0x4000000"),
    ):
        with pytest.raises(ConfigurationError):
            writer(board, medium).plan(Content(None, [part(tmp_path, "x", b"x", place)]), TARGET)
    with pytest.raises(ConfigurationError, match="extcsd"):
        writer(board).plan(Content(None, [part(tmp_path, "x", b"x", PartPlace(offset=0))], ExtCsd([1, 1, 1])), TARGET)


@pytest.mark.parametrize(
    ("command", "lines", "kind"),
    [
        ("tftpboot", ["Loading: *T T T T T", "Retry count exceeded; starting again"], TftpTimeoutError),
        ("nvme write", ["nvme write: device 0 block # 0, count 8 ... 3 blocks written: ERROR"], MediaWriteFailedError),
        ("nvme write", [], MediaWriteFailedError),
    ],
)
def test_a_write_ends_with_the_class_of_what_was_said_and_the_next_one_succeeds(
    tmp_path: Path, command: str, lines: list[str], kind: type[Exception]
) -> None:
    board, data = PlayedUBoot(tmp_path), content(4096)[:4096]
    chosen = writer(board)
    plan = chosen.plan(image(tmp_path, data), TARGET)
    board.spoil = lambda typed, said: lines if typed.startswith(command) else said
    with pytest.raises(kind):
        chosen.write(plan, lambda _progress: None)
    board.spoil = lambda _typed, said: said
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).digest == hashlib.sha256(data).hexdigest()


def test_a_name_with_a_blank_or_a_semicolon_is_one_word_of_a_command(tmp_path: Path) -> None:
    board, data = PlayedUBoot(tmp_path), content(4096)[:4096]
    wic = tmp_path / "my image; mmc erase 0 1.wic"
    wic.write_bytes(data)
    chosen = writer(board)
    plan = chosen.plan(Content(Image(source=str(wic), sha256=hashlib.sha256(data).hexdigest())), TARGET)
    chosen.write(plan, lambda _progress: None)
    _, load = [command for command in board.typed if command.startswith("tftpboot")]  # the first is the plan's probe
    assert load.split(" ", 2)[2] == "my_image__mmc_erase_0_1.wic-0"
    assert bytes(board.disk[:4096]) == data


def test_a_partition_is_where_the_table_on_the_medium_has_it(tmp_path: Path) -> None:
    board, root = PlayedUBoot(tmp_path), content(300_000)[:300_000]
    chosen = writer(board)
    plan = chosen.plan(Content(None, [part(tmp_path, "rootfs", root, PartPlace(partition=2))]), TARGET)
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == len(root)
    assert bytes(board.disk[1 << 20 :][: len(root)]) == root
    assert not any(board.disk[: 1 << 20])
    with pytest.raises(ImageTooLargeError, match="partition 2 has 524288"):
        chosen.plan(Content(None, [part(tmp_path, "large", content(600_000), PartPlace(partition=2))]), TARGET)
    with pytest.raises(MediaMissingError, match="Invalid partition"):
        chosen.plan(Content(None, [part(tmp_path, "rootfs", root, PartPlace(partition=3))]), TARGET)
    with pytest.raises(ValueError, match="brings a partition table"):
        Content(image(tmp_path, root).image, [part(tmp_path, "rootfs", root, PartPlace(partition=2))])
