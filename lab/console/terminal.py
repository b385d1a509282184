"""A terminal for a person or a script at a port."""

from __future__ import annotations

import codecs
import os
import re
import select
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from lab.console.client import ConsoleClient
from lab.console.model import Chunk, Gap, RecordKind
from lab.console.moments import stamp_lines
from lab.console.printk import PrintkFit
from lab.console.recording import Recording
from lab.console.status import PortStatus, ServerStatus
from lab.errors import LabTransientError
from lab.host.clock import NS_PER_S
from lab.host.process import describe
from lab.terminal import bad, plain_bytes, plain_text, table

if TYPE_CHECKING:
    from lab.console.replay import Replay


_RETURNS = re.compile("\r+\n")


class LiveText:
    """Decodes a console's bytes to text; keeps the board's line ends."""

    def __init__(self) -> None:
        """Start without bytes."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held = ""  # carriage returns: a newline may follow

    def feed(self, data: bytes) -> str:
        """Return the text that is complete so far."""
        text = self._held + self._decoder.decode(data)
        complete = text.rstrip("\r")
        self._held = text[len(complete) :]
        return plain_text(_RETURNS.sub("\r\n", complete))


LEAVE = b"\x1d"  # Ctrl-], telnet's escape character
TIMEOUT_S = 30.0  # a command at a prompt, as labgrid's drivers have it
LINGER_S = 1.0  # longer than a prompt takes to answer, and short for a person who waits
SEARCHED_BYTES = 65536  # of what came last, in which `until` is looked for
_BLOCK = 4096


@frozen
class Ending:
    """Conditions that end a terminal, beside Ctrl-].

    Attributes:
        until: pattern to wait for; None: none.
        timeout_s: limit for `until` after the last typed byte.
        linger_s: without `until`: required silence of the line after the end of the input.
    """

    until: re.Pattern[bytes] | None = None
    timeout_s: float = TIMEOUT_S
    linger_s: float = LINGER_S


@define
class Terminal:
    """Connects keyboard and screen (file descriptors) with a port.

    Attributes:
        lines: typed text is sent when its line ends, with a carriage return in place of the newline; output is shown
            as text in which nothing acts on a terminal. Else every byte goes through as it is.
    """

    client: ConsoleClient
    ending: Ending = field(factory=Ending)
    lines: bool = False
    keyboard: int = 0
    screen: int = 1
    _recent: bytes = field(default=b"", init=False)
    _text: LiveText = field(factory=LiveText, init=False)

    def run(self) -> bool:
        """Run until Ctrl-] or the ending.

        Returns: False: `until` did not come in time.

        Raises:
            LabTransientError: the server went away; or, where no person sits at the keyboard, the port.
        """
        try:
            with nullcontext() if self.lines or not os.isatty(self.keyboard) else _raw(self.keyboard):
                return self._run()
        except BrokenPipeError:  # the reader of our output has ended
            return True

    def show(self, data: bytes) -> None:
        """Write the board's output to the screen."""
        output = self._text.feed(data).replace("\r\n", "\n").encode() if self.lines else data
        while output:
            output = output[os.write(self.screen, output) :]

    def _run(self) -> bool:
        person = os.isatty(self.keyboard)
        poll = select.poll()
        poll.register(self.keyboard, select.POLLIN)
        poll.register(self.client.fileno(), select.POLLIN)
        typing, active_s = True, time.monotonic()  # of the last byte that counts for the ending
        while True:
            waits_for_person = typing and self.ending.until is None
            wait_s = None if waits_for_person else max(0.0, active_s + self._patience_s - time.monotonic())
            ready = {fd for fd, _ in poll.poll(None if wait_s is None else wait_s * 1000)}
            if not ready and wait_s is not None and time.monotonic() - active_s >= self._patience_s:
                return self.ending.until is None
            if typing and self.keyboard in ready:
                typed = os.read(self.keyboard, _BLOCK)
                keys, escape, _ = typed.partition(LEAVE)
                if keys:
                    self.client.write(keys.replace(b"\n", b"\r") if self.lines else keys)
                if escape or (person and not typed):
                    return True
                typing, active_s = bool(typed), time.monotonic()
                if not typing:
                    poll.unregister(self.keyboard)
            while (data := self._read(person)) is not None:  # waiting for the write's answer may bring some too
                self.show(data)
                if self.ending.until is None:
                    active_s = time.monotonic()
                else:
                    self._recent = (self._recent + data)[-SEARCHED_BYTES:]
                    if self.ending.until.search(self._recent) is not None:
                        return True

    @property
    def _patience_s(self) -> float:
        return self.ending.linger_s if self.ending.until is None else self.ending.timeout_s

    def _read(self, person: bool) -> bytes | None:
        while (event := self.client.read_event(timeout_s=0)) is not None:
            if isinstance(event, Chunk):
                return event.data
            if isinstance(event, Gap) and event.kind is RecordKind.LOST and not person:
                raise LabTransientError(
                    f"the port was lost: {os.strerror(event.amount)}; is the adapter still plugged in?",
                    failure="port_lost",
                )
        return None


@contextmanager
def _raw(keyboard: int) -> Iterator[None]:
    """Send every key to the board, Ctrl-C too; restore the terminal afterwards."""
    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


_NS_PER_MS = 1e6
_GAPS = {
    RecordKind.LOST: "the port was lost",
    RecordKind.BACK: "the port was opened again",
    RecordKind.UNRECORDED: "bytes are missing here: they could not be written",
    RecordKind.DROPPED: "bytes are missing here: the reader was too slow",
}


def replay_lines(result: Replay) -> list[str]:
    """Format a boot's moments and their uncertainty."""
    timing = result.timing
    rows = [
        [
            f"{first.seconds:.6f}",
            f"{previous.seconds:+.6f}",
            f"{moment.uncertainty_ns / _NS_PER_MS:.2f}",
            moment.name,
            moment.text,
        ]
        for moment, first, previous in zip(result.moments, result.since_first(), result.since_previous(), strict=True)
    ]
    head = f"{result.board}: {len(rows)} moments at {timing.speed_bd} Bd"
    if timing.adapter_latency_ns:
        head += f", adapter latency {timing.adapter_latency_ns / _NS_PER_MS:g} ms"
    lines = [head]
    if rows:
        lines += table(["since first s", "since last s", "± ms", "moment", "line"], rows, ">>><<")
    lines.append(_printk_line(result.printk))
    if result.lateness_max_ns:
        lines.append(f"worst evidence of late stamps: {result.lateness_max_ns / _NS_PER_MS:.2f} ms (in the ± near it)")
    if result.gaps:
        lines.append(f"gaps: {result.gaps}; bytes may be missing there, see `lab console show`")
    return lines


def log_lines(recording: Recording) -> Iterator[str]:
    """Format a recording's lines with the time since the first one."""
    start_ns: int | None = None
    for line in stamp_lines(recording.events(), recording.meta.timing):
        start_ns = line.t_ns if start_ns is None else start_ns
        text = f"--- {_GAPS[line.kind]} ---" if isinstance(line, Gap) else plain_bytes(line.data.rstrip(b"\r\n"))
        yield f"{(line.t_ns - start_ns) / NS_PER_S:12.6f}  {text}"


def status_lines(state: ServerStatus) -> list[str]:
    """Format the state of the server and its ports."""
    lines = [f"pid {state.pid} since {state.started}, {state.scheduling}; log: {state.log}"]
    if not state.ports:
        return [*lines, "no port is open"]
    header = ["port", "board", "bytes", "last byte", "readers", "gaps", "dropped", "late ms", "state", "writer"]
    return [*lines, *table(header, [_status_row(port) for port in state.ports], "<<>>>>>><<")]


def _status_row(port: PortStatus) -> list[str]:
    troubles = [port.state]
    if port.recording_broken:
        troubles.append(f"not recorded: {port.recording_broken}")
    if port.line_errors is not None:
        troubles += [f"{name} {count}" for name, count in port.line_errors.items() if count]
    return [
        port.info.name,
        port.board or "-",
        str(port.received_bytes),
        "never" if port.last_byte_age_s is None else f"{port.last_byte_age_s:.1f} s ago",
        str(port.readers),
        str(port.gaps),
        str(port.dropped),
        f"{port.lateness_max_ns / _NS_PER_MS:.2f}",
        port.state if troubles == ["open"] else bad(", ".join(troubles)),
        "-" if port.writer is None else describe(port.writer),
    ]


def _printk_line(fit: PrintkFit | None) -> str:
    if fit is None:
        return "kernel's clock: too few lines with a time to compare with the host's"
    residual = f"median {fit.residual_median_ns / _NS_PER_MS:.2f}, p95 {fit.residual_p95_ns / _NS_PER_MS:.2f}"
    return (
        f"kernel's clock: {fit.rate_ppm:+.0f} ppm against the host's over {fit.span_s:.1f} s and {fit.n} of "
        f"{fit.lines} lines; lines waited for the UART: {residual}, max {fit.residual_max_ns / _NS_PER_MS:.2f} ms"
    )
