"""The console server when things go wrong around it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import termios

import pytest
from support.console_bench import DEADLINE_S, ConsoleBench, read_bytes, read_until_refused, wait_for
from support.facts import missing_facts

from lab.console import Chunk, Gap, RecordKind
from lab.errors import ConfigurationError, LabStableError, LabTransientError


def test_a_killed_server_leaves_every_byte_that_it_handed_out_and_the_next_one_goes_on(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter)
    seen: list[Chunk] = []
    for number in range(50):
        adapter.say(b"line %d\r\n" % number)
    seen += read_bytes(client, 100)
    bench.end_server()
    rest, error = read_until_refused(client)
    seen += rest
    assert error.failure == "console_server_gone"
    assert not missing_facts(str(error), "gone", "last words")
    before = list(bench.recording().chunks())
    assert before[: len(seen)] == seen

    again, info = bench.opened(adapter)
    assert info.position >= before[-1].end  # it may have read by now what the killed one had left in the port
    adapter.say(b"after")
    after = read_bytes(again, 5)
    assert after[0].position >= before[-1].end
    events = list(bench.recording().events())
    assert [event for event in events if isinstance(event, Chunk)][: len(before)] == before
    assert [event.kind for event in events if isinstance(event, Gap)] == [RecordKind.BACK]


def test_an_unplugged_port_is_noticed_and_read_again_when_it_is_back(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, info = bench.opened(adapter, write=True)
    adapter.say(b"before")
    read_bytes(client, 6)
    adapter.unplug()
    lost = client.read_event(DEADLINE_S)
    assert isinstance(lost, Gap)
    assert (lost.kind, lost.position) == (RecordKind.LOST, 6)
    with pytest.raises(LabTransientError, match=r"uart0: lost.*again"):
        client.write(b"x")
    (port,) = client.status().ports
    assert port.state.startswith("lost since")
    with pytest.raises(LabStableError, match=r"adapter in again"):
        client.open(adapter.link, name=info.name)
    adapter.plug()
    back = client.read_event(DEADLINE_S)
    assert isinstance(back, Gap)
    assert back.kind == RecordKind.BACK
    adapter.say(b"after")
    client.write(b"hello")
    assert adapter.heard(5) == b"hello"
    (after,) = read_bytes(client, 5)
    assert (after.data, after.position) == (b"after", 6)
    assert [gap.kind for gap in bench.recording().gaps()] == [RecordKind.LOST, RecordKind.BACK]
    assert client.status().ports[0].gaps == 1


def test_a_pty_whose_link_still_points_to_a_stranger_s_terminal_is_left_alone(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter)
    number = str(adapter.link.readlink())
    adapter.unplug()
    assert isinstance(client.read_event(DEADLINE_S), Gap)
    strangers = []
    while not strangers or os.ttyname(strangers[-1]) != number:  # somebody gets the number of our pty
        strangers += os.openpty()
        assert len(strangers) < 100
    known = len(bench.recording().index())
    other = bench.adapter("uart1")
    bench.opened(other)
    other.unplug()
    other.plug()
    wait_for(lambda: client.status().ports[1].state == "open", "the return of another port")
    assert client.status().ports[0].state.startswith("lost")
    assert len(bench.recording().index()) == known
    for fd in strangers:
        os.close(fd)


def test_a_new_pty_with_the_number_of_a_lost_one_is_a_port_of_its_own(bench: ConsoleBench) -> None:
    lost = bench.adapter()
    client, _ = bench.opened(lost)
    number = str(lost.link.readlink())
    lost.unplug()
    assert isinstance(client.read_event(DEADLINE_S), Gap)
    adapters = [bench.adapter("other0")]
    while str(adapters[-1].link.readlink()) != number:
        adapters.append(bench.adapter(f"other{len(adapters)}"))
    other, info = bench.opened(adapters[-1])
    assert info.name == adapters[-1].link.name
    adapters[-1].say(b"I am another")
    assert read_bytes(other, 12)[0].position == 0


def test_a_slow_reader_is_dropped_with_a_word_and_the_other_one_loses_nothing(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    slow, info = bench.opened(adapter)
    fast = bench.client()
    fast.attach(info.name)
    line = bytes(range(32, 126)) * 20
    received = sent = 0
    while fast.status().ports[0].dropped == 0:
        adapter.say(line)
        sent += len(line)
        received += sum(len(chunk.data) for chunk in read_bytes(fast, len(line)))
        assert sent < 64 << 20, "the slow reader was never dropped"
    assert received == sent
    chunks, error = read_until_refused(slow)
    assert error.failure == "console_overrun"
    assert not missing_facts(str(error), "dropped", "too slow")
    got = b"".join(chunk.data for chunk in chunks)
    assert 0 < len(got) < sent
    assert got == (line * (sent // len(line)))[: len(got)]
    adapter.say(b"still here")
    assert read_bytes(fast, 10)[0].position == sent
    assert bench.recording().log == line * (sent // len(line)) + b"still here"
    assert fast.status().ports[0].readers == 1


def test_a_port_that_takes_no_bytes_does_not_hold_up_the_server(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter, write=True)

    def write_for_ever() -> None:
        for _ in range(100):
            client.write(b"x" * 10_000)

    with pytest.raises(LabTransientError, match=r"has not taken \d+ bytes") as caught:
        write_for_ever()
    assert caught.value.failure == "port_stuck"
    adapter.say(b"still reading")
    read_bytes(client, 13)
    assert client.status().ports[0].state == "open"


def test_a_port_that_somebody_else_reads_is_not_opened_and_he_is_named(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    before = termios.tcgetattr(adapter.board)
    script = "import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print('mine', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, adapter.link], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        client = bench.client()
        with pytest.raises(LabTransientError, match=rf"takes bytes away: pid {other.pid} \(python") as caught:
            client.open(adapter.link)
        assert caught.value.failure == "console_shared"
        assert client.status().ports == []
        assert termios.tcgetattr(adapter.board) == before
        other.communicate(b"\n")
    client.open(adapter.link)
    bench.client().open(adapter.link)  # the server, which holds it now, is no stranger


def test_a_port_that_somebody_else_locks_is_refused_with_his_name(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    script = "import fcntl, sys; f = open(sys.argv[1], 'wb', 0); fcntl.flock(f, 2); print('mine', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, adapter.link], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(LabStableError, match=f"program: pid {other.pid} \\(") as caught:
            bench.client().open(adapter.link)
        assert caught.value.failure == "port_in_use"
        other.communicate(b"\n")
    bench.client().open(adapter.link)


@pytest.mark.parametrize(
    ("device", "kind", "says"),
    [
        ("/dev/ttyUSB77", LabStableError, "no such port; plug the adapter in"),
        ("/dev/null", ConfigurationError, "not a serial port"),
    ],
)
def test_a_port_that_cannot_be_opened_says_what_to_do(
    bench: ConsoleBench, device: str, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        bench.client().open(device)


def test_a_full_disk_costs_the_recording_bytes_and_nobody_else_and_is_said(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client, _ = bench.opened(adapter)
    line = b"x" * 999 + b"\n"
    unlimited = resource.prlimit(bench.server_pid, resource.RLIMIT_FSIZE)
    resource.prlimit(bench.server_pid, resource.RLIMIT_FSIZE, (20_000, unlimited[1]))
    for _ in range(30):
        adapter.say(line)
        read_bytes(client, len(line))
    (port,) = client.status().ports
    assert (port.recording_broken, port.received_bytes) == ("File too large", 30_000)
    kept = bench.recording()
    assert kept.log == line * (len(kept.log) // 1000) + line[: len(kept.log) % 1000]
    assert (bench.runtime / "recordings" / "uart0.log").stat().st_size == len(kept.log)
    said = (bench.runtime / "console.log").read_text().count("the recording is broken: File too large")
    assert said == 1

    resource.prlimit(bench.server_pid, resource.RLIMIT_FSIZE, unlimited)
    sent = 30_000

    def recording_again() -> bool:
        nonlocal sent
        adapter.say(line)
        read_bytes(client, len(line))
        sent += len(line)
        return client.status().ports[0].recording_broken == ""

    wait_for(recording_again, "the recording's recovery")
    (gap,) = bench.recording().gaps()
    assert gap.kind == RecordKind.UNRECORDED
    assert len(bench.recording().log) + gap.amount == sent
    assert gap.position == len(kept.log) + gap.amount
