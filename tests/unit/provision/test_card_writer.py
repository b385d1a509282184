"""A card that is at the host for a while: written in a process of its own, read back, refused where it is not the card."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from attrs import evolve

from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.provision.errors import (
    ImageDamagedError,
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    MediaWriteProtectedError,
    TargetRefusedError,
    WriteStalledError,
)
from lab.provision.release import Content, ExtCsd, Image, Part, PartPlace
from lab.provision.writer import Meter, Step, WriteProgress, WriteTarget
from lab.provision.writers import blockdevice, blockwriter, planning, sd_mux
from lab.provision.writers.sd_mux import CardWriter, Disk, Host, check_identity, identity_of

TARGET = WriteTarget("b1", "any", "sd")
BMAP = """<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize> {size} </ImageSize>
    <BlockSize> 4096 </BlockSize>
    <BlocksCount> {blocks} </BlocksCount>
    <MappedBlocksCount> 2 </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BlockMap>
        <Range chksum="{first}"> 0 </Range>
        <Range chksum="{last}"> 700 </Range>
    </BlockMap>
</bmap>
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def card(folder: Path, size: int) -> Path:
    path = folder / "card.img"
    path.write_bytes(b"\xa5" * size)
    return path


def writer(path: Path, places: list[str] | None = None) -> CardWriter:
    @contextmanager
    def at_host() -> Iterator[Disk]:
        if places is not None:
            places.append("host")
        yield Disk(str(path), path.stat().st_size, "card")
        if places is not None:
            places.append("dut")

    return CardWriter("sd-mux", at_host)


def packed(folder: Path, data: bytes, **more: str) -> Content:
    path = folder / "sdk.wic.gz"
    path.write_bytes(gzip.compress(data, compresslevel=1))
    return Content(Image(source=str(path), sha256=sha256(path.read_bytes()), size=len(data), **more))


def test_a_packed_image_is_unpacked_on_the_way_and_read_back(tmp_path: Path) -> None:
    data, seen, places = os.urandom((9 << 20) + 1000), list[WriteProgress](), list[str]()
    path = card(tmp_path, 10 << 20)
    chosen = writer(path, places)
    plan = chosen.plan(packed(tmp_path, data), TARGET)
    assert (plan.target.device, plan.target.size_bytes) == (str(path), 10 << 20)
    chosen.write(plan, seen.append)
    verified = chosen.verify(plan)
    on_card = path.read_bytes()
    assert on_card[: len(data)] == data
    assert on_card[len(data) :] == b"\xa5" * (len(on_card) - len(data))
    assert (verified.digest, verified.bytes) == (sha256(data), len(data))
    assert seen[-1].done == len(data)
    assert places == ["host", "dut"] * 3


def test_only_mapped_blocks_are_written(tmp_path: Path) -> None:
    size = 701 * 4096
    data = os.urandom(4096) + bytes(699 * 4096) + os.urandom(4096)
    bmap = tmp_path / "sdk.wic.bmap"
    bmap.write_text(BMAP.format(size=size, blocks=701, first=sha256(data[:4096]), last=sha256(data[-4096:])))
    path = card(tmp_path, size)
    chosen = writer(path)
    plan = chosen.plan(packed(tmp_path, data, bmap=str(bmap)), TARGET)
    assert plan.total_bytes == 8192
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == 8192
    on_card = path.read_bytes()
    assert (on_card[:4096], on_card[-4096:]) == (data[:4096], data[-4096:])
    assert set(on_card[4096:-4096]) == {0xA5}


def test_one_byte_that_is_not_as_written_is_seen(tmp_path: Path) -> None:
    path, data = card(tmp_path, 5 << 20), os.urandom(5 << 20)
    chosen = writer(path)
    plan = chosen.plan(packed(tmp_path, data), TARGET)
    chosen.write(plan, lambda _progress: None)
    with path.open("r+b") as file:
        file.seek(4_500_000)
        file.write(bytes([data[4_500_000] ^ 1]))
    with pytest.raises(MediaVerifyFailedError, match="0x400000"):
        chosen.verify(plan)


def test_parts_go_to_their_offsets_the_first_stage_last(tmp_path: Path) -> None:
    path = card(tmp_path, 1 << 20)
    parts = []
    for name, data, offset in (
        ("tiboot3.bin", b"1" * 700, 0),
        ("u-boot.img", b"3" * 5000, 0x20000),
        ("tispl.bin", b"2" * 900, 0x10000),
    ):
        (tmp_path / name).write_bytes(data)
        parts.append(Part(source=str(tmp_path / name), sha256=sha256(data), name=name, to=PartPlace(offset=offset)))
    chosen = writer(path)
    plan = chosen.plan(Content(None, parts), TARGET)
    assert [step.name for step in plan.steps] == ["u-boot.img", "tispl.bin", "tiboot3.bin"]
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).digest == sha256(b"3" * 5000 + b"2" * 900 + b"1" * 700)
    assert path.read_bytes()[0x10000 : 0x10000 + 901] == b"2" * 900 + b"\xa5"


def test_what_does_not_fit_or_belong_is_refused_before_the_first_byte(tmp_path: Path) -> None:
    path = card(tmp_path, 1 << 20)
    before = path.read_bytes()
    with pytest.raises(ImageTooLargeError):
        writer(path).plan(packed(tmp_path, bytes(2 << 20)), TARGET)
    content = packed(tmp_path, bytes(4096))
    with pytest.raises(ConfigurationError, match="extcsd"):
        writer(path).plan(Content(content.image, [], ExtCsd([1, 1, 1])), TARGET)
    assert path.read_bytes() == before


def test_a_file_that_was_changed_is_refused_before_the_board_is_touched_and_after_it_was_planned(
    tmp_path: Path,
) -> None:
    path, places = card(tmp_path, 1 << 20), list[str]()
    content = packed(tmp_path, bytes(4096))
    chosen = writer(path, places)
    plan = chosen.plan(content, TARGET)
    source = tmp_path / "sdk.wic.gz"
    good = source.read_bytes()
    os.utime(source, (1, 1))
    source.write_bytes(bytes([good[0] ^ 1]) + good[1:])
    with pytest.raises(ImageDamagedError):
        chosen.write(plan, lambda _progress: None)
    places.clear()
    with pytest.raises(ImageDamagedError):
        chosen.plan(content, TARGET)
    assert places == []
    assert set(path.read_bytes()) == {0xA5}


def test_a_card_that_is_gone_is_told(tmp_path: Path) -> None:
    path = card(tmp_path, 1 << 20)
    chosen = writer(path)
    plan = chosen.plan(packed(tmp_path, bytes(4096)), TARGET)
    gone = CardWriter("sd-mux", lambda: _there(Disk(str(tmp_path / "gone"), 1 << 20, "card")))
    with pytest.raises(MediaMissingError, match="multiplexer"):
        gone.write(plan, lambda _progress: None)


@pytest.mark.parametrize("other", [("another reader", 1 << 20), ("card", 2 << 20)])
def test_a_card_that_is_another_one_than_was_planned_is_neither_written_nor_compared(
    tmp_path: Path, other: tuple[str, int]
) -> None:
    path = card(tmp_path, 1 << 20)
    plan = writer(path).plan(packed(tmp_path, bytes(4096)), TARGET)
    identity, size_bytes = other
    changed = CardWriter("sd-mux", lambda: _there(Disk(str(path), size_bytes, identity)))
    with pytest.raises(TargetRefusedError, match=r"another disk.*nothing"):
        changed.write(plan, lambda _progress: None)
    with pytest.raises(TargetRefusedError, match="another disk"):
        changed.verify(plan)
    assert set(path.read_bytes()) == {0xA5}


@pytest.mark.parametrize(
    ("number", "size_bytes", "is_there", "kind"),
    [
        (errno.ENOSPC, 0, True, MediaMissingError),  # what the kernel says of a reader that was pulled out
        (errno.EIO, 1 << 20, False, MediaMissingError),
        (errno.ENOSPC, 1 << 20, True, MediaWriteFailedError),
        (errno.EIO, 1 << 20, True, MediaWriteFailedError),
    ],
)
@pytest.mark.parametrize("transfer", ["write", "sync", "read"])
def test_a_reader_that_was_pulled_out_is_no_bad_card(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    size_bytes: int,
    is_there: bool,
    kind: type[Exception],
    transfer: str,
) -> None:
    fail_transfers(monkeypatch, tmp_path, size_bytes, is_there)
    for call in ("pwrite", "preadv", "fsync"):
        monkeypatch.setattr(blockwriter.os, call, partial(refuse, number))
    device = blockwriter._Device(str(card(tmp_path, 1 << 20)), writable=True)
    orders: dict[str, Callable[[], object]] = {
        "write": lambda: device.write(0, memoryview(bytes(4096))),
        "sync": device.sync,
        "read": lambda: device.read(0, 4096),
    }
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
        orders[transfer]()
    assert type(blockdevice.kernel_error("/dev/sdb", caught.value.errno or 0, "why")) is kind


def test_a_reader_without_its_medium_is_not_read_as_a_worn_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_transfers(monkeypatch, tmp_path, 0, is_there=True)
    device = blockwriter._Device(str(card(tmp_path, 1 << 20)), writable=False)
    with pytest.raises(OSError, match="vanished"):
        device.read(2 << 20, 4096)  # behind the end, where a vanished device has all


def test_a_card_that_was_taken_out_is_missing_whatever_the_transfer_failed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel fails transfers with EIO, and keeps the size until the medium is looked for."""
    device = blockwriter._Device(str(card(tmp_path, 1 << 20)), writable=True)
    fail_transfers(monkeypatch, tmp_path, 1 << 20, is_there=True)
    monkeypatch.setattr(blockwriter.os, "pwrite", partial(refuse, errno.EIO))
    monkeypatch.setattr(blockwriter.os, "open", partial(refuse, errno.ENOMEDIUM))
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number is looked at
        device.write(0, memoryview(bytes(4096)))
    assert type(blockdevice.kernel_error("/dev/sdb", caught.value.errno or 0, "why")) is MediaMissingError


def fail_transfers(monkeypatch: pytest.MonkeyPatch, folder: Path, size_bytes: int, is_there: bool) -> None:
    """A file is a block device of this size, which sysfs has or has not."""
    monkeypatch.setattr(blockwriter.stat, "S_ISBLK", lambda _mode: True)
    monkeypatch.setattr(blockwriter.os, "lseek", lambda *_place: size_bytes)
    monkeypatch.setattr(blockwriter, "_DEVICES", folder)
    if is_there:
        (folder / "0:0").touch()


def refuse(number: int, *_arguments: object) -> int:
    raise OSError(number, "refused")


@contextmanager
def _there(disk: Disk) -> Iterator[Disk]:
    yield disk


class Clock:
    """A clock that goes on by a minute at each look, unless it stands."""

    def __init__(self, *, stands: bool = False) -> None:
        self.now, self.stands = 0, stands

    def now_ns(self) -> int:
        self.now += 0 if self.stands else 60 * 10**9
        return self.now


def test_a_write_that_makes_no_progress_is_ended_and_its_writer_with_it(tmp_path: Path) -> None:
    path, pids = card(tmp_path, 64 << 20), list[int]()
    clock = Clock(stands=True)  # until the writer runs, which takes a busy host a while
    meter = Meter(64 << 20, lambda _progress: None, clock.now_ns, 30.0)

    def write() -> None:
        with blockdevice.open_writer(str(path), meter, writable=True) as block:
            clock.stands = False
            pids.append(block.pid)
            os.kill(block.pid, signal.SIGSTOP)  # as one that hangs in the kernel
            while True:
                block.write(0, bytes(1 << 20))

    with pytest.raises(WriteStalledError):
        write()
    assert not Path(f"/proc/{pids[0]}").exists()


def test_a_write_that_stalls_after_an_answer_is_ended_too(tmp_path: Path) -> None:
    path, seen = card(tmp_path, 64 << 20), list[WriteProgress]()
    clock = Clock(stands=True)
    meter = Meter(64 << 20, seen.append, clock.now_ns, 90.0)

    def write() -> None:
        with blockdevice.open_writer(str(path), meter, writable=True) as block:
            clock.stands = False
            block.write(0, b"\0" * 4096)
            answered(block)  # which is read within the next order
            os.kill(block.pid, signal.SIGSTOP)
            block.write(0, bytes(64 << 20))

    with pytest.raises(WriteStalledError, match="after 4096 of"):
        write()
    assert seen[-1].done == 4096


def test_what_unpacks_a_long_hole_is_no_stall_of_the_medium(tmp_path: Path) -> None:
    path, clock, asked = card(tmp_path, 8 << 20), [0], list[int]()

    def now_ns() -> int:
        asked.append(clock[0])
        if len(asked) == 3:
            os.kill(pid, signal.SIGCONT)
        return clock[0]

    meter = Meter(8 << 20, lambda _progress: None, now_ns, 60.0)
    with blockdevice.open_writer(str(path), meter, writable=True) as block:
        pid = block.pid
        block.write(0, bytes(4096))
        answered(block)
        block._look(0)
        os.kill(pid, signal.SIGSTOP)  # busy, so that the meter is asked
        clock[0] += 120 * 10**9
        asked.clear()
        block.write(4 << 20, b"\x11" * (4 << 20))
        block.finish()
    assert path.read_bytes()[4 << 20 :] == b"\x11" * (4 << 20)


def answered(block: blockdevice.BlockDevice) -> None:
    """Until an answer waits in the pipe."""
    assert select.select([block._out], [], [], 60)[0]


def patient(count: int) -> Meter:
    return Meter(count, lambda _progress: None, lambda: 0, 60.0)


def test_a_writer_that_is_killed_is_a_failed_write(tmp_path: Path) -> None:
    path = card(tmp_path, 4 << 20)

    def write() -> None:
        with blockdevice.open_writer(str(path), patient(4 << 20), writable=True) as block:
            os.kill(block.pid, signal.SIGKILL)
            for offset in range(0, 4 << 20, 1 << 20):
                block.write(offset, bytes(1 << 20))
            block.finish()

    with pytest.raises(MediaWriteFailedError):
        write()


def test_a_writer_whose_orders_end_within_one_ends_too(tmp_path: Path) -> None:
    path = card(tmp_path, 4096)
    order = blockwriter.ORDER.pack(blockwriter.WRITE, 0, 4096) + b"half"
    ended = subprocess.run(
        [sys.executable, "-P", "-m", blockwriter.__name__, str(path)],
        input=order,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == b"open\n"
    assert path.read_bytes() == b"\xa5" * 4096


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (16, TargetRefusedError),
        (30, MediaWriteProtectedError),
        (123, MediaMissingError),
        (13, TargetRefusedError),
        (5, MediaWriteFailedError),
    ],
)
def test_what_the_kernel_says_of_a_card_has_its_class(number: int, kind: type[Exception]) -> None:
    assert type(blockdevice.kernel_error("/dev/sdz", number, os.strerror(number))) is kind


@pytest.fixture
def host(tmp_path: Path) -> tuple[Host, Callable[..., None]]:
    """A host with a disk sdz of 8 GiB and its partition sdz1; and how to change it."""
    sys, proc = tmp_path / "sys", tmp_path / "proc"
    disk = sys / "class" / "block" / "sdz"
    for folder, number in ((disk, "8:16"), (disk / "sdz1", "8:17")):
        (folder / "holders").mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
    (disk / "sdz1" / "partition").write_text("1\n")
    (disk / "size").write_text(f"{8 << 21}\n")
    (proc / "self").mkdir(parents=True)

    def change(
        mounted: str = "0:1", swap: str = "", held: bool = False, sectors: int = 8 << 21, source: str = "/dev/x"
    ) -> None:
        (proc / "self" / "mountinfo").write_text(f"21 1 {mounted} / /media/x rw shared:1 - ext4 {source} rw\n")
        (proc / "swaps").write_text(f"Filename Type Size Used Priority\n{swap}\n")
        (disk / "size").write_text(f"{sectors}\n")
        if held:
            (disk / "sdz1" / "holders" / "dm-0").mkdir()

    change()
    return Host(sys, proc), change


def test_a_free_disk_is_taken(host: tuple[Host, Callable[..., None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", _exists(Path.exists))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    found = host[0].disk("/dev/sdz", "pci-0:usb-1")
    assert found == Disk("/dev/sdz", 8 << 30, "pci-0:usb-1")


def test_the_kernel_looks_for_a_card_before_its_size_is_read(
    host: tuple[Host, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose kernel does not poll its readers (block.events_dfl_poll_msecs=0) sees a card when it is opened."""
    size = host[0].sys / "class" / "block" / "sdz" / "size"
    sectors, opened = size.read_text(), os.open
    size.write_text("0\n")

    def opens(path: Path | str, flags: int, *words: int) -> int:
        if str(path) != "/dev/sdz":
            return opened(path, flags, *words)
        size.write_text(sectors)
        return opened(os.devnull, flags)

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr(Path, "exists", _exists(Path.exists))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    assert host[0].disk("/dev/sdz").size_bytes == 8 << 30


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"mounted": "8:16"}, TargetRefusedError, "sdz is mounted on /media/x"),
        ({"mounted": "8:17"}, TargetRefusedError, "sdz1 is mounted on /media/x"),
        (
            {"source": "/dev/sdz1"},
            TargetRefusedError,
            "sdz1 is mounted on /media/x",
        ),  # btrfs, whose numbers no device has
        ({"swap": "/dev/sdz1 partition 1 0 -2"}, TargetRefusedError, "sdz1 is swap"),
        ({"held": True}, TargetRefusedError, "sdz1 is part of dm-0"),
        ({"sectors": 0}, MediaMissingError, "no card"),
    ],
)
def test_a_disk_that_the_host_uses_is_refused(
    host: tuple[Host, Callable[..., None]],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    kind: type[Exception],
    reason: str,
) -> None:
    monkeypatch.setattr(Path, "exists", _exists(Path.exists))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    host[1](**changes)
    with pytest.raises(kind, match=reason):
        host[0].disk("/dev/sdz")


@pytest.mark.parametrize("gone", ["sdz/size", "sdz/sdz1/dev"])
def test_a_disk_that_vanishes_meanwhile_is_missing(
    host: tuple[Host, Callable[..., None]], monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr(Path, "exists", _exists(Path.exists))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    (host[0].sys / "class" / "block" / gone).unlink()
    with pytest.raises(MediaMissingError, match="vanished"):
        host[0].disk("/dev/sdz")


def test_a_link_is_followed_once(
    host: tuple[Host, Callable[..., None]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "by-id").symlink_to("/dev/sdz")
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name == "by-id" or real(path))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    assert host[0].disk(str(tmp_path / "by-id")).path == "/dev/sdz"


def test_a_disk_that_is_another_one_when_it_is_open_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = card(tmp_path, 4096)
    looked = Disk(str(path), 4096, "usb-1")
    monkeypatch.setattr(sd_mux, "disk_here", lambda _path: looked)
    meter = Meter(4096, lambda _progress: None, MonotonicRaw().now_ns)
    with sd_mux.opener_here(looked)(looked.path, meter, writable=True) as block:
        block.write(0, b"x" * 4096)
        block.finish()
    monkeypatch.setattr(sd_mux, "disk_here", lambda _path: evolve(looked, identity="usb-2"))
    with (
        pytest.raises(TargetRefusedError, match=r"another disk"),
        sd_mux.opener_here(looked)(looked.path, meter, writable=True),
    ):
        pytest.fail("it was given out")


def _exists(real: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda path: str(path) == "/dev/sdz" or real(path)


def test_a_file_is_no_disk_and_a_partition_no_card(
    tmp_path: Path, host: tuple[Host, Callable[..., None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = card(tmp_path, 512)
    with pytest.raises(TargetRefusedError, match="not a disk"):
        Host().disk(str(path))
    monkeypatch.setattr(Path, "is_block_device", lambda _path: True)
    (host[0].sys / "class" / "block" / "card.img").mkdir()
    (host[0].sys / "class" / "block" / "card.img" / "partition").write_text("1\n")
    with pytest.raises(TargetRefusedError, match="partition"):
        host[0].disk(str(path))


def test_a_disk_of_another_size_is_somebody_elses() -> None:
    disk = Disk("/dev/sdz", 2 << 40)
    with pytest.raises(TargetRefusedError, match="somebody"):
        check_identity(disk, smallest=0, largest=256 << 30)


def test_pieces_are_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    content = packed(tmp_path, bytes(8 << 20))
    steps = planning.steps(content)
    sizes = [(piece.offset, len(piece.data), piece.first) for piece in planning.pieces(steps, 3 << 20)]
    assert sizes == [(0, 3 << 20, True), (3 << 20, 3 << 20, False), (6 << 20, 2 << 20, False)]


def test_the_next_piece_is_made_while_one_is_used_and_none_after_the_last_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, made = planning.steps(packed(tmp_path, bytes(8 << 20))), [threading.Semaphore(0) for _ in range(8)]
    real, threads = planning._runs, threading.active_count()

    def runs(*arguments: object) -> Iterator[tuple[int, bytes]]:
        for number, run in enumerate(real(*arguments)):  # type: ignore[arg-type]
            made[number].release()
            yield run

    monkeypatch.setattr(planning, "_runs", runs)
    found = planning.pieces(steps, 1 << 20)
    assert next(found).offset == 0
    assert made[1].acquire(timeout=60), "the second, while the first is used"
    assert next(found).offset == 1 << 20
    assert made[2].acquire(timeout=60)
    found.close()  # type: ignore[attr-defined]
    assert not made[3].acquire(blocking=False)
    assert threading.active_count() == threads


def test_an_image_that_cannot_be_unpacked_is_told_with_its_class_also_from_its_thread(tmp_path: Path) -> None:
    content = packed(tmp_path, os.urandom(3 << 20))
    assert content.image is not None
    cut = Path(content.image.source).read_bytes()[: 2 << 20]
    Path(content.image.source).write_bytes(cut)
    steps = (Step(evolve(content.image, sha256=sha256(cut)), None, 3 << 20),)
    with pytest.raises(ImageDamagedError, match="cannot be unpacked"):
        list(planning.pieces(steps, 1 << 20))


def test_a_disk_that_udev_has_not_looked_at_is_missing_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just appeared, or again: what udev knows of it would differ from one look to the next."""
    device = SimpleNamespace(subsystem="block", is_initialized=False, properties={})
    monkeypatch.setattr("pyudev.Devices.from_device_file", lambda _context, _path: device)
    with pytest.raises(MediaMissingError, match="udev"):
        identity_of("/dev/sdz")
    device.is_initialized, device.properties = True, {"ID_PATH": "pci-0:usb-0:1:1.0", "ID_SERIAL_SHORT": "1"}
    assert identity_of("/dev/sdz") == "pci-0:usb-0:1:1.0 1"
