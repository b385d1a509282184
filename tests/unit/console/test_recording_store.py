"""Live recordings: continued after a crash, begun anew when they are of something else or too long."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from lab.console import Chunk, Recording, RecordingMeta
from lab.console.recorder import KEPT, RecordingStore

META = RecordingMeta(
    name="uart0", device="/dev/ttyUSB0", speed_bd=115200, boot_id="today", started="2026-01-01T00:00:00"
)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_recording_of_the_same_port_goes_on(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path)
    first = store.open(META)
    first.append(Chunk(1, 0, b"before the crash"))
    again = store.open(evolve(META, started="2026-01-01T01:00:00"))
    assert again.position == 16
    again.append(Chunk(2, 16, b", after"))
    assert Recording.open(tmp_path / "uart0.log").log == b"before the crash, after"


def test_a_port_with_other_settings_gets_a_recording_of_its_own_and_positions_go_on(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path)
    store.open(META).append(Chunk(1, 0, b"slow"))
    fast = store.open(evolve(META, speed_bd=921600))
    assert (fast.position, fast.meta.start) == (4, 4)
    assert Recording.open(tmp_path / "older" / "uart0" / "2026-01-01T000000.log").log == b"slow"


def test_after_a_reboot_of_the_host_the_stream_begins_anew(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path)
    store.open(META).append(Chunk(1, 0, b"yesterday"))
    assert store.open(evolve(META, boot_id="tomorrow")).position == 0


def test_a_damaged_recording_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "uart0.idx").write_text("nonsense")
    (tmp_path / "uart0.log").write_text("text")
    RecordingStore(tmp_path).open(META)
    assert files(tmp_path / "older" / "uart0") == ["damaged-2026-01-01T000000.idx", "damaged-2026-01-01T000000.log"]


def test_a_long_recording_is_put_aside_and_the_oldest_thrown_away(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path, limit_bytes=100)
    writer = store.open(META)
    for number in range(100):
        writer.append(Chunk(number, writer.position, b"0123456789"))
        writer = store.rotate(writer)
    older = files(tmp_path / "older" / "uart0")
    assert len(older) == 2 * KEPT
    kept = sorted(
        (Recording.open(tmp_path / "older" / "uart0" / name) for name in older[::2]), key=lambda r: r.meta.start
    )
    assert [recording.meta.start for recording in kept] == [700, 800, 900]
    assert all(recording.log == b"0123456789" * 10 for recording in kept)
    assert writer.position == writer.meta.start == 1000


def test_ports_whose_names_begin_alike_do_not_touch_each_other(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path, limit_bytes=10)
    other = store.open(evolve(META, name="uart0-b"))
    writer = store.open(META)
    for number in range(20):
        writer.append(Chunk(number, writer.position, b"0123456789"))
        writer = store.rotate(writer)
    other.append(Chunk(1, 0, b"still here"))
    assert Recording.open(tmp_path / "uart0-b.log").log == b"still here"


def test_without_room_for_a_new_recording_the_old_one_goes_on(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path, limit_bytes=10)
    writer = store.open(META)
    writer.append(Chunk(1, 0, b"0123456789"))
    (tmp_path / "uart0.idx.tmp").mkdir()
    blocked = tmp_path / "older"
    blocked.mkdir()
    turned = store.rotate(writer)
    assert turned is not writer
    assert Recording.open(tmp_path / "uart0.log").meta.start == 10
