"""The console server as a process of its own: bytes in, stamps, recordings and readers out."""

from __future__ import annotations

import os
import pwd
import termios

import pytest
from support.console_bench import BOOT, BOOT_MOMENTS, DEADLINE_S, ConsoleBench, read_bytes, wait_for
from support.facts import missing_facts

from lab import boards
from lab.console import MomentFinder, find_moments
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw


def test_bytes_arrive_stamped_in_order_and_are_recorded(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter)
    clock = MonotonicRaw()
    before_ns = clock.now_ns()
    adapter.say(BOOT)
    chunks = read_bytes(client, len(BOOT))
    assert before_ns < chunks[0].t_ns <= chunks[-1].t_ns < clock.now_ns()
    assert b"".join(chunk.data for chunk in chunks) == BOOT
    assert [chunk.position for chunk in chunks] == [
        sum(len(each.data) for each in chunks[:number]) for number in range(len(chunks))
    ]
    assert [chunk.t_ns for chunk in chunks] == sorted(chunk.t_ns for chunk in chunks)
    assert list(bench.recording().chunks()) == chunks
    assert bench.recording().meta == info.meta
    assert not missing_facts(info.meta.low_latency, "not supported")
    assert info.meta.scheduling.startswith("SCHED_")


def test_live_moments_and_those_of_the_recording_are_the_same(bench: ConsoleBench) -> None:
    board = boards.load("qemu-virt")
    adapter = bench.adapter()
    client, info = bench.opened(adapter)
    finder = MomentFinder(board.moments, info.meta.timing)
    live = []
    for start in range(0, len(BOOT), 700):
        adapter.say(BOOT[start : start + 700])
    while len(live) < len(BOOT_MOMENTS):
        event = client.read_event(DEADLINE_S)
        assert event is not None
        live += finder.feed(event)
    assert find_moments(bench.recording().events(), board.moments, info.meta.timing) == live


def test_many_read_and_one_writes(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    writer, info = bench.opened(adapter, write=True)
    reader, other = bench.client(), bench.client()
    reader.attach(info.name)
    me = pwd.getpwuid(os.getuid()).pw_name
    with pytest.raises(
        LabTransientError,
        match=rf"busy: held by {me} \(.*, pid {os.getpid()}\) since \d{{4}}-.* lab console tail uart0",
    ) as caught:
        other.attach(info.name, write=True)
    assert caught.value.failure == "console_busy"
    with pytest.raises(LabStableError, match="may not write"):
        reader.write(b"x")
    writer.write(b"version\r")
    assert adapter.heard(8) == b"version\r"
    adapter.say(b"U-Boot 2023.01\r\n")
    assert read_bytes(writer, 16) == read_bytes(reader, 16)
    (port,) = other.status().ports
    assert (port.readers, port.writer, port.received_bytes) == (2, os.getpid(), 16)

    writer.close()
    wait_for(lambda: other.status().ports[0].writer is None, "the writer's leaving")
    other.attach(info.name, write=True)
    other.write(b"mine")
    assert adapter.heard(4) == b"mine"


def test_an_open_port_is_found_again_by_any_path_but_not_with_other_settings(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter)
    other_path = bench.folder / "run" / ".." / "uart0"
    for device in (adapter.link, adapter.link.resolve(), other_path):
        assert bench.client().open(device).meta == info.meta
    measurement = bench.client()
    measurement.attach(measurement.open(adapter.link, speed_bd=115200).name, write=True)
    held = rf"held by .*, pid {os.getpid()}\) since .* at 115200 Bd"
    with pytest.raises(LabTransientError, match=held) as caught:
        client.open(adapter.link, speed_bd=9600)
    assert caught.value.failure == "console_busy"
    with pytest.raises(LabTransientError, match=held):
        client.open(adapter.link, adapter_latency_ns=5)
    measurement.close()
    with pytest.raises(ConfigurationError, match="name another"):
        client.open(bench.adapter("uart1").link, name="uart0")
    with pytest.raises(LabStableError, match=r"'nothing'.*uart0"):
        client.attach("nothing")
    with pytest.raises(ConfigurationError, match="no name for a port"):
        client.open(adapter.link, name="../escape")
    client.close()
    other = bench.client()
    wait_for(lambda: other.status().ports[0].readers == 0, "the reader's leaving")
    assert other.open(adapter.link, speed_bd=9600, name="uart0").meta.speed_bd == 9600
    other.close_port("uart0")
    assert other.status().ports == []


def test_who_only_looks_does_not_keep_a_measurement_from_its_settings(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    looking, before = bench.opened(adapter)
    adapter.say(b"idle\r\n")
    read_bytes(looking, 6)
    measurement = bench.client()
    info = measurement.open(adapter.link, speed_bd=921600, adapter_latency_ns=5_000_000)
    measurement.attach(info.name, write=True)
    timing = info.meta.timing
    assert (timing.speed_bd, timing.adapter_latency_ns, timing.fifo_bytes) == (
        921600,
        5_000_000,
        before.meta.fifo_bytes,
    )
    adapter.say(b"booting\r\n")
    assert [(chunk.position, chunk.data) for chunk in read_bytes(looking, 9)] == [(6, b"booting\r\n")]
    assert read_bytes(measurement, 9)[0].position == 6
    recording = bench.recording()
    assert (recording.meta.timing, recording.meta.start, recording.log) == (timing, 6, b"booting\r\n")
    assert recording.meta.adapter == f"{before.meta.adapter}; latency as configured"
    assert bench.client().open(adapter.link).meta == info.meta
    assert termios.tcgetattr(adapter.board)[4:6] == [termios.B921600] * 2


def test_what_is_told_about_the_adapter_goes_into_the_timing(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    info = bench.client().open(adapter.link, adapter_latency_ns=16_000_000, fifo_bytes=64)
    assert (info.meta.timing.adapter_latency_ns, info.meta.timing.fifo_bytes) == (16_000_000, 64)
    assert "as configured" in info.meta.adapter


def test_sixteen_consoles_at_once_lose_nothing(bench: ConsoleBench) -> None:
    adapters = [bench.adapter(f"uart{number}") for number in range(16)]
    clients = [bench.opened(adapter)[0] for adapter in adapters]
    texts = [b"".join(b"port %d line %d\r\n" % (number, n) for n in range(400)) for number in range(16)]
    for start in range(0, len(texts[-1]), 512):
        for adapter, text in zip(adapters, texts, strict=True):
            adapter.say(text[start : start + 512])
    for number, (client, text) in enumerate(zip(clients, texts, strict=True)):
        chunks = read_bytes(client, len(text))
        assert b"".join(chunk.data for chunk in chunks) == text
        assert bench.recording(f"uart{number}").log == text
    assert [port.received_bytes for port in clients[0].status().ports] == [len(text) for text in texts]
