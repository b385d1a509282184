"""Lines typed at a board's prompt, proved by their echo before they are entered.

A UART without flow control loses typed characters while its board is busy. So a line goes out in pieces that its own
echo paces, and is entered once all of it came back. A damaged line is cancelled by Ctrl-C and typed anew. No decision
rests on time alone: what a board takes late comes in the order in which it was typed.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from attrs import define, field
from pexpect import TIMEOUT

from lab.errors import LabTransientError

FAILURE: Final = "characters_lost"
TYPING_S: Final = 30.0  # silence in which a line is given up; as long as labgrid's drivers wait for a prompt
_WINDOW_BYTES: Final = 32  # without echo so far: receive FIFO of a PL011 (r1p5); TI's UARTs have 64, a 16550A 16
_ECHO_S: Final = 1.0  # silence after which a piece is cancelled, or the line's end is asked for
_QUIET_S: Final = 0.05  # without another byte, a prompt that was drawn anew is the last one
_MOST_BYTES: Final = 65536  # of one answer to Ctrl-C; a board that says more does not wait at its prompt
_TRIES: Final = 20
_BELLS: Final = 2
_CANCEL: Final = b"\x03"  # Linux' shells and U-Boot begin a new line
_PROBE: Final = b" "  # nothing at a prompt, and echoed; a line's end behind it does not repeat U-Boot's last command
_SECRET: Final = re.compile(rb"(?:password|passphrase)[^:]*: *$", re.IGNORECASE)
_LOGIN: Final = re.compile(rb"login: *$", re.IGNORECASE)
# ECMA-48: control sequences, operating system commands, and other escapes; the last alternative is one that goes on.
_ESCAPES: Final = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\a\x1b]*(?:\a|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]|\x1b[^\n]*$"
)
_FORCED: Final = re.compile(rb"([^\r\n])\r(?=\1)| \r(?![\r\n])")
_PRINTK: Final = re.compile(rb"\A\[ *\d+\.\d{6}(?:@\d+)?\][^\n]*\n")  # between a line's echo and its end
_LINES: Final = re.compile(rb"[\r\n]")
_BELL: Final = b"\a"


class LineConsole(Protocol):
    """Console of a board.

    Raises:
        TIMEOUT: `read` without bytes in time.
    """

    def read(self, size: int = 1, timeout: float = 0.0, max_size: int | None = None) -> bytes: ...
    def write(self, data: bytes) -> int: ...
    def unread(self, data: bytes) -> None: ...


@define
class TypedLine:
    """A line on its way to the board.

    Attributes:
        prompt: the console's last line.
        lost: what became of a login's name that was damaged; empty: nothing.
    """

    terminal: LineConsole
    text: bytes
    prompt: bytes
    lost: str = ""
    _silence_s: float = field(default=TYPING_S, init=False)
    _heard: bytes = field(default=b"", init=False)

    def enter(self) -> None:
        """Type the line and its end.

        The bytes behind the line's end are left to the next reader.

        Raises:
            LabTransientError: the board answers, and characters of each try were lost.
            TIMEOUT: the board does not answer.
        """
        prompt = last_line(self.prompt)
        if _SECRET.search(prompt):
            self.terminal.write(self.text + b"\n")
            return
        if _LOGIN.search(prompt):  # the login program refuses a damaged name, and asks again
            if not self._type_and_compare(self.text) and not _in_order(self.text, self._heard):
                self.lost = self._damage()
            self._end()
            return
        damages = bells = 0
        while damages < _TRIES and bells < _BELLS:
            if self._type_lines():
                return
            bells += _BELL in self._heard
            if not self._cancel(prompt):
                break
            damages += 1
        if not damages:
            raise TIMEOUT(f"no echo of {self._quote_text()}")
        raise LabTransientError(self._damage(full=bells == _BELLS), failure=FAILURE)

    def _type_lines(self) -> bool:
        lines = self.text.split(b"\n")
        for number, line in enumerate(lines):
            if number:  # of a command of several lines: the shell asks for more
                self._quiet(self._read(_ECHO_S))
            if not self._type_and_compare(line):
                return False
            self._end()
        return True

    def _type_and_compare(self, line: bytes) -> bool:
        """Type a line without its end, and compare its echo."""
        sent, self._heard = 0, b""
        while (count := count_echo(line, self._heard)) is not None and count < len(line):
            left = len(line) - sent
            room = min(_WINDOW_BYTES - (sent - count), left)
            if room >= _WINDOW_BYTES // 2 or 0 < room == left:
                self.terminal.write(line[sent : sent + room])
                sent += room
            if not (data := self._read(_ECHO_S)):
                break
            self._heard += data
        return count == len(line)

    def _cancel(self, prompt: bytes) -> bool:
        """Have the board draw its prompt anew, on an empty line.

        The line is empty if the prompt is as before, or twice the same.
        """
        before = prompt
        while self._silence_s > 0:
            self.terminal.write(_CANCEL)
            heard = self._quiet(self._read(_ECHO_S))
            drawn = last_line(heard)
            if drawn and drawn == before and _LINES.search(heard):
                return True
            before = drawn or before
        return False

    def _end(self) -> None:
        """Type the line's end until the board has taken it.

        Raises:
            TIMEOUT: the board does not answer.
        """
        self.terminal.write(b"\n")
        heard = b""
        while self._silence_s > 0:
            data = self._read(_ECHO_S)
            heard = _PRINTK.sub(b"", heard + data)
            text = _ESCAPES.sub(b"", heard).replace(b"\r", b"")
            if text.strip(_PROBE):
                blank, end, behind = heard.partition(b"\n")
                # Output without a line's end before it: a getty of BusyBox echoes none, or it was lost on its way here.
                self.terminal.unread(behind if end and not _ESCAPES.sub(b"", blank).strip(b" \r") else heard)
                return
            if not data:
                self.terminal.write(b"\n" if text else _PROBE)  # the probe came back, and no line's end before it
                heard = b""
        raise TIMEOUT(f"no line end behind {self._quote_text()}")

    def _quiet(self, heard: bytes) -> bytes:
        """Read until the board says no more, or too much."""
        while len(heard) < _MOST_BYTES and (data := self._read(_QUIET_S)):
            heard += data
        return heard

    def _read(self, timeout_s: float) -> bytes:
        """Return all bytes that are there; empty: silence."""
        try:
            return self.terminal.read(timeout=timeout_s)
        except TIMEOUT:
            self._silence_s -= timeout_s
            return b""

    def _damage(self, *, full: bool = False) -> str:
        why = (
            "the board rang its bell: its line is full (U-Boot: CONFIG_SYS_CBSIZE), so the command has to be shorter"
            if full
            else "characters were lost on their way to the board, or its shell does not echo (`stty echo`). Look at "
            "the load of the lab's host, the adapter and its cable"
        )
        return f"{self._quote_text()} was typed, and {self._heard[-80:].decode('latin-1')!r} came back at last: {why}"

    def _quote_text(self) -> str:
        text = self.text.decode("latin-1")
        return repr(text if len(text) <= 80 else f"{text[:60]}…{text[-20:]}")


def count_echo(line: bytes, heard: bytes) -> int | None:
    """Number of the line's bytes that came back; None: others came.

    Where a line wraps, BusyBox begins a new one. Readline prints a blank or the next character, returns, and prints
    what follows.
    """
    text = _ESCAPES.sub(b"", heard).replace(b"\0", b"").rstrip(b"\r")  # NUL: padding of old terminals
    echo = _FORCED.sub(b"", text).replace(b"\r", b"").replace(b"\n", b"")
    if echo.startswith(line):
        return len(line)
    if line.startswith(echo):
        return len(echo)
    return len(echo) - 1 if line.startswith(echo[:-1]) else None  # the last one may be of a wrap


def last_line(text: bytes) -> bytes:
    """Return the last line as a terminal shows it, without blanks at its end."""
    cells = bytearray()
    for byte in _ESCAPES.sub(b"", _LINES.split(text)[-1]):
        if byte == ord("\b"):
            del cells[-1:]
        elif byte >= ord(" "):
            cells.append(byte)
    return bytes(cells).rstrip()


def _in_order(text: bytes, heard: bytes) -> bool:
    """Return whether all bytes of the text came, also with others between."""
    rest = iter(heard)
    return all(byte in rest for byte in text)
