"""Every typed line is proved by its echo: a line that loses characters gives no wrong answer, and no fault of the board's."""

from __future__ import annotations

import os
import pty
import random
import re
import select
import signal
import string
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attr
import pytest
from attrs import define, field
from labgrid import Target
from labgrid.driver import ShellDriver
from labgrid.factory import target_factory
from labgrid.resource import RawSerialPort
from pexpect import TIMEOUT
from support.atlength import either

from lab.benchmarks.boot.crosscheck import BoardSoftware, facts_question, read_facts, whole_text
from lab.console.model import Chunk, Event
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, ServerStatus
from lab.drivers import StampedConsoleDriver, typedline
from lab.drivers.consoleport import LocalPort
from lab.drivers.guarded_calls import SHELL
from lab.drivers.prompt import Prompt, type_question
from lab.drivers.typedline import TypedLine, count_echo
from lab.errors import BoardlabError, LabTransientError

PROMPT = "board:~# "
FIFO_BYTES = 16  # of a UART whose guest gets no processor
SHELLS = {"bash": ["bash", "--norc", "--noprofile"], "dash": ["dash"]}
AT_LOGIN = b"board login: "
QUESTIONS = 10
COMMANDS = either(30, 5_000)  # in each shell
ECHO_S = 0.05  # nothing but the patience of the test


@define(eq=False)
class Line:
    """A serial line to a shell on a pty: it loses typed bytes, and what a starved guest's FIFO has no room for.

    Attributes:
        share: of the typed bytes that are lost. starved: the chance of a write to find the guest without a processor.
    """

    shell: list[str]
    share: float = 0.0
    starved: float = 0.0
    dice: random.Random = field(factory=lambda: random.Random(57))
    lost: int = 0
    typed: bytes = b""
    _fifo: bytes = b""
    _runs_at: float = 0.0
    _pid: int = 0
    _fd: int = -1

    def open(self) -> None:
        self._pid, self._fd = pty.fork()
        if not self._pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a program in the background hands on that it ignores it
            environ = {"PATH": os.environ["PATH"], "PS1": PROMPT, "TERM": "vt102", "HISTFILE": ""}
            os.execvpe(self.shell[0], self.shell, environ)  # noqa: S606

    def write(self, data: bytes) -> None:
        self.typed += data
        came = bytes(byte for byte in data if self.dice.random() >= self.share)
        now = time.monotonic()
        if now >= self._runs_at and self.dice.random() < self.starved:
            self._runs_at = now + self.dice.uniform(0, 3 * ECHO_S)
        self._fifo += came
        if now < self._runs_at:
            self.lost += len(self._fifo[FIFO_BYTES:])
            self._fifo = self._fifo[:FIFO_BYTES]
        self.lost += len(data) - len(came)
        self._flush()

    def read_event(self, timeout_s: float) -> Event | None:
        deadline = time.monotonic() + timeout_s
        while True:
            self._flush()
            left = min(deadline, self._runs_at if self._fifo else deadline) - time.monotonic()
            if select.select([self._fd], [], [], max(0.0, left))[0]:
                with suppress(OSError):
                    return Chunk(time.monotonic_ns(), 0, os.read(self._fd, 4096))
            if time.monotonic() >= deadline:
                return None

    def status(self, name: str | None = None) -> ServerStatus:  # noqa: ARG002
        return ServerStatus(0, "", "", "", [])

    def close(self) -> None:
        if self._fd >= 0:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._fd)
            self._fd = -1

    def _flush(self) -> None:
        if self._fifo and time.monotonic() >= self._runs_at:
            os.write(self._fd, self._fifo)
            self._fifo = b""


@target_factory.reg_driver
@attr.s(eq=False)
class LineConsoleDriver(StampedConsoleDriver):
    """The console driver, with a `Line` in place of the console server."""

    line: Line = attr.ib(default=None, repr=False)

    def _connect(self) -> Line:
        if self._client is None:
            self._client = self.line
            self.info = PortInfo(RecordingMeta("line", self.port.port, 115200), "", 0)
            self._port = LocalPort(self.port, self.runtime)
        return self._client


@contextmanager
def console_on(line: Line) -> Iterator[LineConsoleDriver]:
    target = Target("main")
    RawSerialPort(target, "main0", port="/dev/null", speed=115200)
    console = LineConsoleDriver(target, None, line=line)
    line.open()
    try:
        target.activate(console)
        yield console
    finally:
        target.cleanup()
        line.close()


@contextmanager
def shell_on(line: Line) -> Iterator[Prompt]:
    with console_on(line) as console:
        shell = ShellDriver(
            console.target, None, prompt=rf"(?:\x1b\[\?2004h)?{PROMPT}", login_prompt="login: ", username="root"
        )
        sound, line.share, line.starved = (line.share, line.starved), 0.0, 0.0
        console.target.activate(shell)
        line.share, line.starved = sound
        yield Prompt(shell, SHELL)


def is_whole(lines: Sequence[str]) -> bool:
    return whole_text(lines) is not None


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typedline, "_ECHO_S", ECHO_S)


@pytest.mark.longer
@pytest.mark.parametrize("shell", SHELLS)
def test_commands_through_a_line_that_drops_bytes_of_a_starved_guest_give_no_wrong_answer(shell: str) -> None:
    line = Line(SHELLS[shell], share=0.004, starved=0.02)
    wrong, blame_sharing, lost = [], [], 0
    with shell_on(line) as prompt:
        for number in range(COMMANDS):
            words = " ".join(
                "".join(line.dice.choices(string.ascii_letters + "./-_=%,:", k=9))
                for _ in range(line.dice.randint(1, 12))
            )
            command = f"printf '%s\\n' '{words}'; (exit {number % 7})"
            try:
                answer = prompt.run(command)
            except LabTransientError as error:
                assert error.failure == typedline.FAILURE  # noqa: PT017
                lost += 1
            except BoardlabError as error:
                blame_sharing.append((command, error))
            else:
                wrong += [(command, answer)] if answer != ([words], [], number % 7) else []
    assert line.lost > COMMANDS / 4  # or the line was too good
    assert not wrong
    assert not blame_sharing
    assert lost <= COMMANDS / 20


@pytest.mark.parametrize("shell", SHELLS)
def test_a_question_is_answered_whole_and_right_or_known_to_be_damaged(shell: str) -> None:
    line = Line(SHELLS[shell], share=0.002, starved=0.02)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    question = facts_question(BoardSoftware(dmesg="-r"), ["0.000001"])
    found = []
    with shell_on(line) as prompt:
        for _ in range(QUESTIONS):
            with suppress(LabTransientError):
                lines = type_question(prompt.driver.console, SHELL, question, prompt.driver.prompt, is_whole)
                if (text := whole_text(lines)) is not None:
                    found.append(read_facts(text))
    assert line.lost > QUESTIONS / 4  # or the line was too good
    assert len(found) > QUESTIONS / 2
    starts_ns = {facts.getty_ns for facts in found if facts is not None and facts.boot_id == boot_id}
    assert len(starts_ns) == 1, "each answer names this host's boot, and one start of the shell"


def test_a_prompt_within_an_answer_does_not_end_it() -> None:
    question = f"echo '{PROMPT}'; printf '%s' '{PROMPT}'; sleep 0.1; echo; echo last"
    with shell_on(Line(SHELLS["bash"])) as prompt:
        console, at = prompt.driver.console, prompt.driver.prompt
        lines = type_question(console, SHELL, question, at, lambda lines: lines[-1:] == ["last"])
        assert lines == [PROMPT, PROMPT, "last"]
        assert type_question(console, SHELL, "echo damaged", at, lambda _: False) == ["damaged"]


@define
class PlayedBoard:
    """A board's terminal: `answer` gives what it says to the bytes typed so far and to those that come.

    Attributes:
        typed: all bytes of the host.
    """

    answer: Callable[[bytes, bytes], bytes]
    typed: bytes = b""
    _said: bytes = b""

    def write(self, data: bytes) -> int:
        for byte in data:
            self._said += self.answer(self.typed, bytes([byte]))
            self.typed += bytes([byte])
        return len(data)

    def read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes:  # noqa: ARG002
        if not self._said:
            raise TIMEOUT("nothing")
        data, self._said = self._said, b""
        return data

    def unread(self, data: bytes) -> None:
        self._said = data + self._said


def uboot(typed: bytes, byte: bytes) -> bytes:
    """The console of a U-Boot that takes no more than 20 characters in a line."""
    if byte in b"\n\x03":
        return b"<INTERRUPT>\r\n=> " if byte == b"\x03" else b"\r\nanswer\r\n=> "
    line = re.split(rb"[\n\x03]", typed)[-1]
    return byte if len(line) < 20 else b"\a"


@pytest.mark.parametrize(
    ("echo", "count"),
    [
        (b"", 0),
        (b"echo", 4),
        (b"echo a b", 8),
        (b"\x1b[?2004hec\x1b[Kho a b\x1b]0;title\a", 8),
        (b"echo a\r\r\n b", 8),  # BusyBox
        (b"echo \r\r\na b", 8),  # at a blank
        (b"echo  \ra b", 8),  # readline, which waited at the edge for the next character
        (b"echo a\ra b", 8),  # readline, which knew the next one
        (b"echo \r", 5),
        (b"eco a", None),
        (b"echo a[    4.000000] usb 1-1: new device\r\n b", None),
        (b"echo aa b", None),
    ],
)
def test_an_echo_is_the_typed_line_whatever_a_terminal_does_where_it_wraps(echo: bytes, count: int | None) -> None:
    assert count_echo(b"echo a b", echo) == count


def test_a_board_that_says_nothing_is_not_the_labs_fault() -> None:
    with pytest.raises(TIMEOUT):
        TypedLine(PlayedBoard(lambda _typed, _byte: b""), b"uname", b"# ").enter()


def test_a_board_that_boots_on_while_a_command_is_typed_is_not_the_labs_fault() -> None:
    boots = PlayedBoard(lambda typed, _byte: b"[    %d.000000] a line of the kernel\r\n" % len(typed))
    with pytest.raises(TIMEOUT):
        TypedLine(boots, b"uname", b"=> ").enter()


def test_a_line_that_uboot_has_no_room_for_says_so() -> None:
    board = PlayedBoard(uboot)
    with pytest.raises(LabTransientError, match="CONFIG_SYS_CBSIZE") as caught:
        TypedLine(board, b"echo " + b"x" * 20, b"=> ").enter()
    assert caught.value.failure == typedline.FAILURE
    assert b"\n" not in board.typed


def test_a_shell_without_echo_gets_no_command() -> None:
    board = PlayedBoard(lambda _typed, byte: b"\r\n# " if byte == b"\x03" else b"")
    with pytest.raises(LabTransientError, match="stty echo"):
        TypedLine(board, b"reboot", b"# ").enter()
    assert b"\n" not in board.typed


def test_a_password_is_not_waited_for() -> None:
    board = PlayedBoard(lambda _typed, _byte: b"")
    TypedLine(board, b"secret", b"Password: ").enter()
    assert board.typed == b"secret\n"


@pytest.mark.parametrize(("drops", "lost"), [(b"", False), (b"t", True)])
def test_a_name_is_typed_once_and_the_login_program_is_asked(drops: bytes, lost: bool) -> None:
    def getty(_typed: bytes, byte: bytes) -> bytes:
        return b"" if byte in drops and drops else b"\r\nPassword: " if byte == b"\n" else byte

    board = PlayedBoard(getty)
    line = TypedLine(board, b"root", AT_LOGIN)
    line.enter()
    assert board.typed == b"root\n"
    assert bool(line.lost) is lost


def test_a_lost_line_end_is_typed_again_behind_a_blank_that_came_back() -> None:
    ends = 0

    def shell(_typed: bytes, byte: bytes) -> bytes:
        nonlocal ends
        ends += byte == b"\n"
        return byte if byte != b"\n" else b"\r\nLinux\r\n# " if ends > 1 else b""

    board = PlayedBoard(shell)
    TypedLine(board, b"uname", b"# ").enter()
    assert board.typed == b"uname\n \n"
    assert board.read() == b"Linux\r\n# "
