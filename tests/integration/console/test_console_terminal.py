"""A script at a port: `lab console attach` without a person, until the other end is done."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field
from support.console_bench import DEADLINE_S, Adapter, ConsoleBench, read_bytes

from lab.console.lookup import attach_to_port, last_lines, wait_for_writer
from lab.console.terminal import LEAVE, Ending, Terminal
from lab.errors import LabStableError, LabTransientError

PROMPT = Ending(until=re.compile(rb"^=> $", re.MULTILINE), timeout_s=DEADLINE_S)


@define
class Script:
    """A terminal between two pipes, which runs in a thread."""

    terminal: Terminal
    typed: int
    shown: int
    found: list[bool | Exception] = field(factory=list)
    thread: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.found.append(self.terminal.run())
        except LabTransientError as error:
            self.found.append(error)

    def type(self, data: bytes, *, end: bool = True) -> None:
        os.write(self.typed, data)
        if end:
            os.close(self.typed)
            self.typed = -1

    def result(self) -> tuple[bool | Exception, bytes]:
        """How it ended, and all that it showed."""
        self.thread.join(DEADLINE_S)
        assert self.found, "it goes on"
        os.set_blocking(self.shown, False)
        try:
            return self.found[0], os.read(self.shown, 1 << 16)
        except BlockingIOError:
            return self.found[0], b""


@define
class Desk:
    """A port, and scripts at it."""

    bench: ConsoleBench
    adapter: Adapter
    scripts: list[Script] = field(factory=list)

    def script(self, ending: Ending, *, lines: bool = False) -> Script:
        client, _ = attach_to_port(str(self.adapter.link), self.bench.runtime, write=True)
        keyboard, typed = os.pipe()
        shown, screen = os.pipe()
        script = Script(Terminal(client, ending, lines, keyboard, screen), typed, shown)
        self.scripts.append(script)
        return script

    def close(self) -> None:
        for script in self.scripts:
            script.thread.join(DEADLINE_S)
            script.terminal.client.close()
            for fd in (script.terminal.keyboard, script.terminal.screen, script.typed, script.shown):
                if fd >= 0:
                    os.close(fd)


@pytest.fixture
def desk(bench: ConsoleBench) -> Iterator[Desk]:
    desk = Desk(bench, bench.adapter())
    yield desk
    desk.close()


def test_a_command_from_a_pipe_is_answered_before_it_ends(desk: Desk) -> None:
    script = desk.script(PROMPT)
    script.type(b"version\r")
    assert desk.adapter.heard(8) == b"version\r"
    desk.adapter.say(b"version\r\nU-Boot 2023.01\r\n")
    desk.adapter.say(b"=> ")
    assert script.result() == (True, b"version\r\nU-Boot 2023.01\r\n=> ")


def test_without_a_text_to_wait_for_it_stays_until_the_line_was_silent(desk: Desk) -> None:
    script = desk.script(Ending(linger_s=2.0))
    script.type(b"version\r")
    assert desk.adapter.heard(8) == b"version\r"
    desk.adapter.say(b"U-Boot 2023.01\r\n")
    assert script.result() == (True, b"U-Boot 2023.01\r\n")


def test_what_does_not_come_in_time_is_said_by_the_result(desk: Desk) -> None:
    script = desk.script(Ending(until=re.compile(b"never"), timeout_s=0.1))
    script.type(b"", end=True)
    assert script.result()[0] is False


def test_ctrl_and_bracket_ends_it_with_the_input_still_open(desk: Desk) -> None:
    script = desk.script(Ending())
    script.type(b"x" + LEAVE + b"never sent", end=False)
    assert script.result() == (True, b"")
    assert desk.adapter.heard(1) == b"x"


@pytest.mark.parametrize("gone", ["port", "server"])
def test_a_script_is_told_when_the_port_or_the_server_goes(desk: Desk, gone: str) -> None:
    script = desk.script(PROMPT)
    if gone == "port":
        desk.adapter.unplug()
    else:
        desk.bench.end_server()
    found, _ = script.result()
    assert isinstance(found, LabTransientError)
    assert found.failure == {"port": "port_lost", "server": "console_server_gone"}[gone]


def test_lines_are_sent_with_a_carriage_return_and_shown_as_harmless_text(desk: Desk) -> None:
    script = desk.script(PROMPT, lines=True)
    script.type(b"printenv\nversion\n")
    assert desk.adapter.heard(17) == b"printenv\rversion\r"
    desk.adapter.say(b"\x1b[2Jarch=arm\r\n=> ")
    assert script.result() == (True, b"^[[2Jarch=arm\n=> ")


def test_a_port_is_found_by_its_path_its_name_and_its_board(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    with bench.client() as measurement:
        info = measurement.open(adapter.link, speed_bd=9600, name="uart0", board="sim-1")
        for wanted in (str(adapter.link), os.fspath(adapter.link.resolve()), "uart0", "sim-1"):
            client, found = attach_to_port(wanted, bench.runtime)
            with client:
                assert (found.name, found.meta) == ("uart0", info.meta)
        (port,) = measurement.status().ports
        assert port.board == "sim-1"
        client, found = attach_to_port("sim-1", bench.runtime, speed_bd=115200)
        with client:
            assert found.meta.speed_bd == 115200
    with pytest.raises(LabStableError, match=r"'sim-2'.*sim-1, uart0") as caught:
        attach_to_port("sim-2", bench.runtime)
    assert caught.value.failure == "port_unknown"


def test_a_name_starts_no_server_and_a_path_does(bench: ConsoleBench) -> None:
    with pytest.raises(LabTransientError, match=r"no console server"):
        attach_to_port("uart0", bench.runtime)
    client, found = attach_to_port(str(bench.adapter().link), bench.runtime)
    with client:
        assert found.meta.speed_bd == 115200


def test_who_is_to_type_is_waited_for_before_the_server_and_the_port_are_there(bench: ConsoleBench) -> None:
    adapter = bench.adapter()
    found: list[int | None] = []
    waiting = threading.Thread(
        target=lambda: found.append(wait_for_writer(str(adapter.link), DEADLINE_S, bench.runtime))
    )
    waiting.start()
    with bench.client() as client:
        info = client.open(adapter.link, name="uart0", board="sim-1")
        client.attach(info.name)
        for wanted in (str(adapter.link), os.fspath(adapter.link.resolve()), "uart0", "sim-1"):
            assert wait_for_writer(wanted, 0.0, bench.runtime) is None, "a reader cannot type"
        assert waiting.is_alive()
        client.attach(info.name, write=True)
        for wanted in (str(adapter.link), os.fspath(adapter.link.resolve()), "uart0", "sim-1"):
            assert wait_for_writer(wanted, 0.0, bench.runtime) == os.getpid()
        assert wait_for_writer("uart1", 0.0, bench.runtime) is None
        waiting.join(DEADLINE_S)
    assert found == [os.getpid()]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, b"=> "), (2, b"two\r\n=> "), (3, b"one\r\ntwo\r\n=> "), (99, b"one\r\ntwo\r\n=> ")],
)
def test_the_last_lines_are_those_from_before_one_was_attached(
    bench: ConsoleBench, count: int, expected: bytes
) -> None:
    adapter = bench.adapter()
    reader, _ = bench.opened(adapter)
    said = b"one\r\ntwo\r\n=> "
    adapter.say(said)
    read_bytes(reader, len(said))
    client, info = attach_to_port("uart0", bench.runtime)
    with client:
        adapter.say(b"later\r\n")
        read_bytes(client, 7)
        assert last_lines(info, count) == expected


def test_last_lines_of_a_long_log_and_of_none(bench: ConsoleBench, tmp_path: Path) -> None:
    adapter = bench.adapter()
    reader, info = bench.opened(adapter)
    assert last_lines(info, 3) == b""
    line = b"x" * 999 + b"\n"
    for _ in range(150):
        adapter.say(line)
        read_bytes(reader, len(line))
    client, info = attach_to_port("uart0", bench.runtime)
    with client:
        assert last_lines(info, 100) == line * 100
