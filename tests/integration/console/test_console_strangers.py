"""Clients that send nonsense, too much or nothing: each is refused or hung up, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.console_bench import DEADLINE_S, ConsoleBench, read_bytes, wait_for
from support.facts import missing_facts

from lab.console import ConsoleClient
from lab.console.protocol import HEADER, Deframer, FrameType, Message, encode_frame, encode_message
from lab.errors import ConfigurationError, LabTransientError

MESSAGES = 20  # of an example
LINE = b"[    1.234567] nothing of this may be lost\r\n"

# As JSON. Python's own encoder knows no such numbers, and does not nest so deeply.
_RAW = ["1e400", "-1e400", "NaN", "Infinity", "9" * 4000, "9" * 5000, "1e-400", "-0", "[" * 60_000, '{"a":' * 9_000]
_AWKWARD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1 << 31, 1 << 63, 1 << 64, 1 << 12_000]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["", "\0", "/dev/\0null", "\ud800", "/dev/\udc80", "/" * 5000, "a" * 300, "../x", "\x1b[2J", "/dev"]
    ),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
).map(json.dumps)
_VALUE = st.one_of(_AWKWARD, st.sampled_from(_RAW))
_FIELDS = ["protocol", "device", "speed_bd", "adapter_latency_ns", "fifo_bytes", "name", "write", "a stranger"]
_GOOD = {
    "protocol": "1",
    "device": '"/dev/null"',
    "speed_bd": "115200",
    "adapter_latency_ns": "null",
    "fifo_bytes": "1",
    "name": '"strange"',
    "write": "true",
}
_OPERATION = st.one_of(
    st.sampled_from(["hello", "open", "attach", "close", "status"]).map(json.dumps), _VALUE
)  # without "stop", which ends the server when it is asked for well


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    """Good fields, of which some are missing and some are awkward."""
    fields = {"op": draw(_OPERATION)}
    for name in _FIELDS:
        chosen = draw(st.sampled_from(("good", "missing", "awkward")))
        if chosen == "awkward":
            fields[name] = draw(_VALUE)
        elif chosen == "good" and name in _GOOD:
            fields[name] = _GOOD[name]
    text = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in fields.items()) + "}"
    return encode_frame(FrameType.REQUEST, text.encode())


_PAYLOADS = st.one_of(
    st.binary(max_size=100),
    st.sampled_from(_RAW).map(str.encode),
    _AWKWARD.map(str.encode),
    st.sampled_from(
        [b'{"op": "status"}'.decode().encode(code) for code in ("utf-16", "utf-32", "utf-7")] + [b"\xff\xfe"]
    ),
)
_FRAMES = st.builds(
    lambda kind, payload: HEADER.pack(len(payload), kind) + payload,
    st.one_of(st.sampled_from(sorted(FrameType)), st.integers(0, 255)),
    _PAYLOADS,
)
_LENGTHS = st.builds(HEADER.pack, st.sampled_from([65537, 1 << 20, (1 << 20) + 1, (1 << 32) - 1]), st.integers(0, 255))
_TRUNCATED = st.tuples(_requests(), st.integers(0, 30)).map(lambda cut: cut[0][: -cut[1] - 1])
# A message, and whether the stranger goes away after it, since the rest of it never comes.
_MESSAGES = st.one_of(
    st.tuples(_requests(), st.just(False)),
    st.tuples(_FRAMES, st.just(False)),
    st.tuples(st.one_of(_LENGTHS, _TRUNCATED, st.binary(max_size=50)), st.just(True)),
)


class Stranger:
    """A client that speaks the protocol by hand."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(address)
        self._deframer = Deframer()

    def say(self, data: bytes) -> Message | None:
        """Send it; the answer, or None when the server hung up."""
        with contextlib.suppress(ConnectionError):  # hung up before all was sent; it may have said why
            self.socket.sendall(data)
        try:
            while data := self.socket.recv(65536):
                for frame in self._deframer.feed(data):
                    return frame.message()
        except ConnectionError:
            pass
        return None

    def ask(self, **fields: object) -> Message | None:
        return self.say(encode_message(FrameType.REQUEST, fields))


def greeted(bench: ConsoleBench) -> Stranger:
    """A stranger who has said hello."""
    stranger = Stranger(str(bench.runtime / "console.sock"))
    assert stranger.ask(op="hello", protocol=1) == {"protocol": 1, "pid": bench.server_pid}
    return stranger


@pytest.mark.longer
def test_strange_messages_end_nothing_and_cost_no_other_port_a_byte(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    reader, info = bench.opened(adapter)
    sent = 0

    @settings(database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(st.lists(_MESSAGES, min_size=MESSAGES, max_size=MESSAGES))
    def attack(messages: list[tuple[bytes, bool]]) -> None:
        nonlocal sent
        stranger = greeted(bench)
        for message, goes in messages:
            adapter.say(LINE)
            sent += 1
            if goes:
                stranger.socket.sendall(message)
                stranger.socket.close()
                stranger = greeted(bench)
            elif stranger.say(message) is None:
                stranger = greeted(bench)
        stranger.socket.close()
        got = b"".join(chunk.data for chunk in read_bytes(reader, MESSAGES * len(LINE)))
        assert got == LINE * MESSAGES

    attack()
    assert sent >= settings().max_examples * MESSAGES
    state = reader.status()
    (port,) = [port for port in state.ports if port.info.name == info.name]
    assert (port.gaps, port.dropped, port.recording_broken) == (0, 0, "")
    assert port.received_bytes == sent * len(LINE)
    assert bench.recording().log == LINE * sent
    assert "Traceback" not in (bench.runtime / "console.log").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"op": "open", "device": "/dev/ttyS0", "speed_bd": 1e400}', "'speed_bd': expected a whole number from 1"),
        ('{"op": "open", "device": "/dev/ttyS0", "speed_bd": true}', "'speed_bd': expected a whole number from 1"),
        ('{"op": "open", "device": "/dev/ttyS0", "speed_bd": NaN}', "NaN is no JSON"),
        ('{"op": "open", "device": "/dev/tty\\u0000", "speed_bd": 9600}', "'device': expected a path: printable text"),
        ('{"op": "open", "device": "/dev/\\ud800", "speed_bd": 9600}', "'device': expected a path: printable text"),
        ('{"op": "open", "device": ["/dev/ttyS0"], "speed_bd": 9600}', "'device': expected a path: printable text"),
        (
            '{"op": "open", "device": "/dev/null", "speed_bd": 9600, "fifo_bytes": -1}',
            "'fifo_bytes': expected a whole",
        ),
        ('{"op": "attach", "name": "uart0", "write": "no"}', "'write': expected true or false, got 'no'"),
        ('{"op": "attach", "name": ["uart0"], "write": false}', "'name': expected a port's name"),
        ('{"op": ["open"]}', "unknown request ['open']"),
        ("[" * 60_000, "not a request: nested too deeply"),
        ("7", "not a request: expected a JSON object, got int"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(bench: ConsoleBench, text: str, says: str) -> None:
    bench.client().close()
    stranger = greeted(bench)
    answer = stranger.say(encode_frame(FrameType.REQUEST, text.encode()))
    assert answer is not None
    assert says in answer["message"]
    assert stranger.ask(op="status") is not None


@pytest.mark.parametrize(
    "frame", [encode_frame(FrameType.REQUEST, b"[" * 200_000), encode_frame(FrameType.WRITE, bytes(70_000))]
)
def test_a_frame_that_no_client_of_ours_sends_is_hung_up_on(bench: ConsoleBench, frame: bytes) -> None:
    client = bench.client()
    assert greeted(bench).say(frame) is None
    assert client.status().ports == []


def test_a_frame_of_the_server_s_own_kind_is_refused(bench: ConsoleBench) -> None:
    bench.client().close()
    answer = greeted(bench).say(encode_frame(FrameType.RECORD, b'{"op": "stop"}'))
    assert answer is not None
    assert "not RECORD frames" in answer["message"]


def test_a_wrong_speed_does_not_close_the_port_that_nobody_reads(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    client = bench.client()
    client.open(adapter.link, name="uart0")
    with pytest.raises(ConfigurationError, match="115201 Bd is not a speed"):
        client.open(adapter.link, speed_bd=115201, name="uart0")
    (port,) = client.status().ports
    assert (port.state, port.info.meta.speed_bd) == ("open", 115200)


def test_clients_without_end_leave_the_ports_their_descriptors(bench: ConsoleBench) -> None:
    bench.runtime.mkdir(mode=0o700)
    serve = f'ulimit -n 64; exec "{sys.executable}" -m lab.console.server --runtime "{bench.runtime}" --detach'
    subprocess.run(["sh", "-c", serve], check=True, timeout=DEADLINE_S)
    adapter = bench.adapter()
    reader, _ = bench.opened(adapter)
    strangers: list[Stranger] = []
    answers: list[Any] = []
    for _ in range(200):
        strangers.append(Stranger(str(bench.runtime / "console.sock")))
        answers.append(strangers[-1].ask(op="hello", protocol=1))
    assert 0 < sum(answer == {"protocol": 1, "pid": bench.server_pid} for answer in answers) < 64
    refused = [answer for answer in answers if answer and answer.get("failure") == "console_full"]
    assert not missing_facts(refused[0]["message"], "no more", "end some")
    other = bench.adapter("uart1")
    assert reader.open(other.link, name="uart1").name == "uart1"
    adapter.say(LINE)
    assert read_bytes(reader, len(LINE))[0].data == LINE
    for stranger in strangers:
        stranger.socket.close()

    def served() -> bool:
        try:
            ConsoleClient(bench.runtime / "console.sock").close()
        except LabTransientError:
            return False
        return True

    wait_for(served, "being let in after the strangers left")
    assert (bench.runtime / "console.log").read_text().count("clients are connected") == 1
