"""Serial lines for tests of the console: ptys behind a link, as an adapter behind a udev link, and a server's folder."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import define, field

from lab.console import Chunk, ConsoleClient, Event, LineTiming, PortInfo, Recording, ensure_server
from lab.console.reader import ReconnectingReader
from lab.errors import BoardlabError

KERNEL_START_NS = 7 * 10**12  # the host's clock when the kernel's was 0
DEADLINE_S = 120  # beyond which a starved host is not waited for either

BOOT = (
    b"\r\nU-Boot 2023.01 (Jan 09 2023 - 16:07:33 +0000)\r\n\r\nDRAM:  512 MiB\r\n"
    b"Hit any key to stop autoboot:  1 \x08\x08\x08 0 \r\nBoot mode pins: sd \r\n"
    b"28311552 bytes read in 12 ms (2.2 GiB/s)\r\n\r\nStarting kernel ...\r\n\r\n"
    b"[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]\r\n"
    b"[    0.000000] Linux version 6.1.0 (debian-kernel@lists.debian.org)\r\n"
    + b"".join(b"[    %d.%06d] device %d is ready\r\n" % (n // 50, n % 50 * 20_000, n) for n in range(1, 80))
    + b"[    1.601000] Run /init as init process\r\nRoot file system of medium sd\r\n\r\nqemu-virt login: "
)
# What the type qemu-virt finds in it.
BOOT_MOMENTS = ["uboot", "autoboot", "kernel_load", "starting_kernel", "first_printk", "init", "login"]


class Adapter:
    """A serial adapter that can be unplugged: a pty whose slave is linked as `link`; the test holds the board's end."""

    def __init__(self, link: Path) -> None:
        self.link = link
        self.board = -1
        self.plug()

    def plug(self) -> None:
        """Plug it in: a new pty, and a new link to it."""
        self.board, slave = os.openpty()
        fresh = self.link.with_name(self.link.name + ".new")
        fresh.symlink_to(os.ttyname(slave))
        fresh.replace(self.link)
        os.close(slave)

    def unplug(self) -> None:
        """The pty is gone, the link dangles."""
        os.close(self.board)
        self.board = -1

    def close(self) -> None:
        if self.board >= 0:
            self.unplug()

    def say(self, data: bytes) -> None:
        """The board prints something."""
        while data:
            data = data[os.write(self.board, data) :]

    def heard(self, count: int) -> bytes:
        """What the board received, `count` bytes of it."""
        data = b""
        while len(data) < count:
            ready, _, _ = select.select([self.board], [], [], DEADLINE_S)
            assert ready, f"the board heard only {data!r}"
            data += os.read(self.board, count - len(data))
        return data


@define
class ConsoleBench:
    """A folder with a console server and adapters."""

    folder: Path
    adapters: list[Adapter] = field(factory=list)

    @property
    def runtime(self) -> Path:
        return self.folder / "run"

    @property
    def server_pid(self) -> int:
        return int((self.runtime / "console.lock").read_text())

    def adapter(self, name: str = "uart0") -> Adapter:
        """A new adapter, plugged in."""
        adapter = Adapter(self.folder / name)
        self.adapters.append(adapter)
        return adapter

    def client(self) -> ConsoleClient:
        """A client; the server is started when there is none."""
        return ConsoleClient(ensure_server(self.runtime))

    def opened(self, adapter: Adapter, *, write: bool = False) -> tuple[ConsoleClient, PortInfo]:
        """A client that is attached to the adapter's port."""
        client = self.client()
        info = client.open(adapter.link, name=adapter.link.name)
        return client, client.attach(info.name, write=write)

    def recording(self, name: str = "uart0") -> Recording:
        """What the server has recorded so far."""
        return Recording.open(self.runtime / "recordings" / f"{name}.log")

    def end_server(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the server a signal and wait for its end."""
        process = os.pidfd_open(self.server_pid)
        signal.pidfd_send_signal(process, number)
        assert select.select([process], [], [], DEADLINE_S)[0], "the server did not end"
        os.close(process)

    def close(self) -> None:
        """Unplug and end everything."""
        for adapter in self.adapters:
            adapter.close()
        if (self.runtime / "console.sock").is_socket():
            self.end_server()


def read_bytes(client: ConsoleClient, count: int) -> list[Chunk]:
    """The chunks of the next `count` bytes."""
    chunks: list[Chunk] = []
    while sum(len(chunk.data) for chunk in chunks) < count:
        chunk = client.read(DEADLINE_S)
        assert chunk is not None, f"only {sum(len(chunk.data) for chunk in chunks)} of {count} bytes came"
        chunks.append(chunk)
    return chunks


def read_until_refused(client: ConsoleClient) -> tuple[list[Chunk], BoardlabError]:
    """All chunks until the server sends this client away, and with which words."""
    chunks: list[Chunk] = []
    while True:
        try:
            chunk = client.read(DEADLINE_S)
        except BoardlabError as error:
            return chunks, error
        assert chunk is not None, "the client is still served"
        chunks.append(chunk)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll for something that no file descriptor announces."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {DEADLINE_S:g} s"
        time.sleep(0.005)


@contextlib.contextmanager
def running_bench() -> Iterator[ConsoleBench]:
    """A bench in a folder whose path is short enough for a socket; all of it is ended and gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="console-") as folder:
        bench = ConsoleBench(Path(folder))
        try:
            yield bench
        finally:
            bench.close()


def taken(client: ReconnectingReader | ConsoleClient, count: int) -> list[Chunk]:
    """The chunks of the next `count` bytes, across cuts."""
    chunks: list[Chunk] = []
    tries = 0
    while sum(len(chunk.data) for chunk in chunks) < count:
        event = client.read_event(DEADLINE_S)
        tries += event is None
        assert tries < 5, f"only {sum(len(chunk.data) for chunk in chunks)} of {count} bytes came"
        if isinstance(event, Chunk):
            chunks.append(event)
    return chunks


def paced(data: bytes, timing: LineTiming, sizes: Sequence[int] = (16,), start_ns: int = 10**12) -> list[Event]:
    """Chunks as a line at full speed brings them, read at once; `sizes` are used in turn."""
    chunks: list[Event] = []
    at = 0
    while at < len(data):
        size = sizes[len(chunks) % len(sizes)]
        piece = data[at : at + size]
        at += len(piece)
        chunks.append(Chunk(start_ns + timing.bytes_ns(at), at - len(piece), piece))
    return chunks


def kernel_log(
    count: int, *, ppm: float = 0.0, step_us: int = 20_000, waits_ns: tuple[int, ...] = (0,), first_us: int = 100_000
) -> list[Event]:
    """Lines of a kernel whose clock is slow by `ppm`; each waits for the UART as long as `waits_ns` says in turn."""
    timing = LineTiming(speed_bd=115200)
    events: list[Event] = []
    position = 0
    for number in range(count):
        kernel_us = first_us + number * step_us
        text = f"[{kernel_us / 1e6:12.6f}] line {number}\r\n".encode()
        logged_ns = KERNEL_START_NS + round(kernel_us * 1000 * (1 + ppm * 1e-6))
        begin_ns = logged_ns + waits_ns[number % len(waits_ns)]
        events.append(Chunk(begin_ns + timing.bytes_ns(len(text)), position, text))
        position += len(text)
    return events
