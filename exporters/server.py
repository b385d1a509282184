"""The HTTP server of the exporter: /metrics, and /-/healthy for who supervises it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import ipaddress
import itertools
import logging
import re
import socket
import ssl
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeAlias

import bcrypt
from attrs import Factory, define, field, frozen
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from exporters.families import Results
from exporters.polling import Poller
from exporters.results import ResultsReader
from exporters.webconfig import WebConfig
from lab.errors import LabStableError

_PAGES_AT_ONCE: Final = 2
_NOBODY: Final = "$2b$10$" + "." * 53  # no password has this hash; it costs as much to try as anybody's
_INDEX: Final = b'<!doctype html><title>boardlab</title><h1>boardlab exporter</h1><p><a href="/metrics">metrics</a>\n'


class ExpositionProtocol(Protocol):
    """What is served."""

    def gzipped(self) -> bytes:
        """All metrics, compressed."""
        ...

    def plain(self) -> tuple[int, Iterable[bytes]]:
        """All metrics: length in bytes, and pieces of it."""
        ...


class Guard:
    """Who may ask. A password that was right once is known by a hash that is quick to try, as bcrypt is slow."""

    def __init__(self, config: WebConfig | None) -> None:
        self._users = config.basic_auth_users if config else {}
        self._known: frozenset[bytes] = frozenset()

    @property
    def asks(self) -> bool:
        """Whether there are users."""
        return bool(self._users)

    def knows(self, header: str | None) -> bool:
        """Whether this Authorization header, or none, has opened the door before."""
        digest = self._digest(header)
        return not self._users or any(hmac.compare_digest(digest, known) for known in self._known)

    def admits(self, header: str | None) -> bool:
        """Whether it opens the door; that takes its time."""
        user, secret, password = self._read(header)
        right = bcrypt.checkpw(password.encode()[:72], secret.encode()) and user in self._users
        if right:
            self._known |= {self._digest(header)}
        return right

    def _digest(self, header: str | None) -> bytes:
        return hashlib.sha256("\0".join(self._read(header)).encode()).digest()

    def _read(self, header: str | None) -> tuple[str, str, str]:
        user, _, password = decoded(header).partition(":")
        return user, self._users.get(user, _NOBODY), password


class ExporterServer:
    """Serves an exposition, in the thread that calls `serve_forever`; see `exporters.server` for who comes in."""

    def __init__(self, host: str, port: int, exposition: ExpositionProtocol, config: WebConfig | None) -> None:
        """Listen.

        Raises:
            LabStableError: the address cannot be listened on.
            ConfigurationError: the web-config's certificates cannot be used.
        """
        version_6 = ipaddress.ip_address(host).version == 6
        self._exposition = exposition
        self._guard = Guard(config)
        self._by_name = config is not None and (config.authenticates or config.tls_server_config is not None)
        self._context = config.context() if config else None
        self._asked_to_stop = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._pages = ThreadPoolExecutor(_PAGES_AT_ONCE, "page")
        self._passwords = ThreadPoolExecutor(
            1, "password"
        )  # one bcrypt at a time: guessing must not take the host's cores
        try:
            self._listening = socket.create_server(
                (host, port),
                family=socket.AF_INET6 if version_6 else socket.AF_INET,
                backlog=BACKLOG,
                dualstack_ipv6=version_6,
            )
        except OSError as error:
            raise LabStableError(
                f"cannot listen on {host}:{port}: {error.strerror}; does another exporter run? Choose another --listen"
            ) from error
        name, number = self._listening.getsockname()[:2]
        shown = f"[{name}]" if version_6 else name
        self.url = f"{'https' if self._context else 'http'}://{shown}:{number}/metrics"

    def serve_forever(self) -> None:
        """Answer until `shutdown`."""
        asyncio.run(self._serve())

    def shutdown(self) -> None:
        """End `serve_forever`; may be called from another thread and from a signal's handler, and before it began."""
        self._asked_to_stop.set()
        self._wake()

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()
        for pool in (self._pages, self._passwords):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        door = HttpServer(self._listening, self._context, self._admit, self._answer)
        keeping = asyncio.create_task(door.accept())
        loop = asyncio.get_running_loop()
        self._wake = lambda: _quietly(loop, keeping)
        if self._asked_to_stop.is_set():
            keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeping

    async def _admit(self, asked: Request) -> HttpResponse | None:
        if not self._by_name and not is_address(asked.headers.get("host", "")):
            return text(HTTPStatus.FORBIDDEN, "ask by address, e.g. 127.0.0.1, not by name\n")
        header = asked.headers.get("authorization")
        if self._guard.knows(header):
            return None
        loop = asyncio.get_running_loop()
        if await loop.run_in_executor(self._passwords, self._guard.admits, header):
            return None
        return text(HTTPStatus.UNAUTHORIZED, "a password is needed\n", {"WWW-Authenticate": "Basic"})

    async def _answer(self, asked: Request) -> HttpResponse:
        match asked.path:
            case "/metrics":
                gzip = "gzip" in asked.headers.get("accept-encoding", "")
                return await asyncio.get_running_loop().run_in_executor(self._pages, self._metrics, gzip)
            case "/-/healthy":
                return text(HTTPStatus.OK, "ok\n")
            case "/":
                return HttpResponse(HTTPStatus.OK, (_INDEX,), len(_INDEX), {"Content-Type": "text/html"})
            case _:
                return text(HTTPStatus.NOT_FOUND, "there is /metrics\n")

    def _metrics(self, gzip: bool) -> HttpResponse:
        headers = {"Content-Type": CONTENT_TYPE}
        if gzip:
            page = self._exposition.gzipped()
            return HttpResponse(HTTPStatus.OK, (page,), len(page), {**headers, "Content-Encoding": "gzip"})
        length, pieces = self._exposition.plain()
        return HttpResponse(HTTPStatus.OK, pieces, length, headers)


def is_address(host: str) -> bool:
    """Whether a Host header, or none, names us by an address or as localhost.

    By any other name a web page may be asking, in the browser of somebody on this host, whose name server says that the
    page's own name is 127.0.0.1 (DNS rebinding).
    """
    name = re.sub(r":\d*$", "", host).strip("[]")
    if not name or name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _quietly(loop: asyncio.AbstractEventLoop, keeping: asyncio.Task[None]) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended already
        loop.call_soon_threadsafe(keeping.cancel)


def decoded(header: str | None) -> str:
    """`name:password` of an Authorization header (RFC 7617); empty: it has none."""
    kind, _, text = (header or "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


# --- Limits of client connections, and the exporter's requests ---
# The exporter and `lab web` take their clients here. A silent or slow client costs a socket, no thread, and not for long. At a
# limit, the connection that has waited longest without a request is closed: a request of a browser or a scrape takes milliseconds.


REQUEST_S: Final = 10.0  # for the whole request: TLS, however slowly its bytes come, and the password
ANSWER_S: Final = 30.0  # for the whole answer
MOST_OPEN: Final = 512  # connections in all: half of the 1,024 files that a process may usually have open
MOST_OF_ADDRESS: Final = 256  # of them, from one address
MOST_ANSWERED: Final = 8  # scrapes at once; each may hold a page
BACKLOG: Final = 128  # clients that the system keeps until we take them
HEAD_BYTES: Final = 1 << 14
_PIECE_BYTES: Final = 1 << 18
_PAUSE_S: Final = 0.1  # when the system cannot give another socket
_WARNED_S: Final = 60.0  # between two warnings, so that clients cannot fill a log
_IPV6_PREFIX: Final = 64  # bits; one host chooses the others by itself (RFC 4291, 2.5.1)
_log = logging.getLogger(__name__)

Task: TypeAlias = asyncio.Task[None]


@frozen
class RequestLimits:
    """The limits of a server's connections.

    Attributes:
        total, of_address: connections that are open, in all and from one address. unlimited: addresses, as `origin` gives them,
            that have only the limit in all.
        answering: connections whose requests are being answered.
        request_s: from the connection to the end of the request. answer_s: from there to the end of the answer; None: no deadline.
    """

    total: int
    of_address: int
    answering: int
    request_s: float
    answer_s: float | None
    unlimited: frozenset[str] = frozenset()


@define(eq=False)
class _Client:
    origin: str
    answering: bool = False
    deadline: asyncio.TimerHandle | None = None


class Connections:
    """The open connections of a server, each with a task.

    A task is cancelled at a deadline or a limit.
    """

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._clients: dict[Task, _Client] = {}  # in the order of their last step
        self._origins: Counter[str] = Counter()
        self._warned_s: float | None = None

    async def accept(
        self, listening: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]
    ) -> None:
        """Take clients until this is cancelled.

        Args:
            listening: a socket that is bound and listens. serve: serves one connection, which is closed afterwards.
        """
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:  # the client left already, or there are no more files
                _log.debug("a client was not accepted: %s", error)
                await asyncio.sleep(_PAUSE_S)
                continue
            task = loop.create_task(serve(connection))
            task.add_done_callback(partial(self._ended, connection))
            self._enter(task, origin(peer[0]))

    def asked(self, task: Task) -> None:
        """The request of this connection is complete; it is being answered."""
        client = self._clients.get(task)
        if client is None:
            return
        answering = [each for each, its in self._clients.items() if its.answering]
        if len(answering) >= self._limits.answering:
            self._close(answering[0], f"{len(answering)} requests are being answered")
        self._step(task, client, self._limits.answer_s, answering=True)

    def answered(self, task: Task) -> None:
        """Note that a connection has its answer.

        Its client takes the rest of it, and may ask again until the next deadline.
        """
        client = self._clients.get(task)
        if client is not None:
            self._step(task, client, ANSWER_S, answering=False)

    async def close(self) -> None:
        """Close all connections."""
        tasks = list(self._clients)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _enter(self, task: Task, of: str) -> None:
        limits = self._limits
        if self._origins[of] >= limits.of_address and of not in limits.unlimited:
            self._close(self._oldest(of), f"{limits.of_address} connections from {of} are open")
        elif len(self._clients) >= limits.total:
            self._close(self._oldest(), f"{limits.total} connections are open")
        self._origins[of] += 1
        self._step(task, _Client(of), limits.request_s, answering=False)

    def _step(self, task: Task, client: _Client, seconds: float | None, *, answering: bool) -> None:
        if client.deadline is not None:
            client.deadline.cancel()
        client.deadline = None
        if seconds is not None:
            client.deadline = asyncio.get_running_loop().call_later(seconds, self._late, task, seconds)
        client.answering = answering
        self._clients.pop(task, None)
        self._clients[task] = client

    def _oldest(self, of: str | None = None) -> Task:
        """The connection to close first: the oldest without a request, else the oldest."""
        found = [(task, its) for task, its in self._clients.items() if of in {None, its.origin}]
        return next((task for task, its in found if not its.answering), found[0][0])

    def _late(self, task: Task, seconds: float) -> None:
        _log.debug("a client was slower than %g s: closed", seconds)
        task.cancel()

    def _close(self, task: Task, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._warned_s is None or now_s - self._warned_s >= _WARNED_S:
            self._warned_s = now_s
            _log.warning("%s: the oldest are closed for new ones; said once a minute at most", why)
        self._forget(task)
        task.cancel()

    def _ended(self, connection: socket.socket, task: Task) -> None:
        self._forget(task)
        connection.close()  # a task that was cancelled before it began has no transport that would do it

    def _forget(self, task: Task) -> None:
        client = self._clients.pop(task, None)
        if client is None:
            return
        if client.deadline is not None:
            client.deadline.cancel()
        self._origins[client.origin] -= 1
        if not self._origins[client.origin]:
            del self._origins[client.origin]


def origin(address: str) -> str:
    """The key of a client's limit.

    It is the address for IPv4, the network of 64 bits for IPv6, and one key for loopback.
    """
    try:
        its = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    its = getattr(its, "ipv4_mapped", None) or its
    if its.is_loopback:
        return "127.0.0.1"  # a user of this host has all of 127.0.0.0/8
    if its.version == 4 or its.is_link_local:
        return str(its)
    return str(ipaddress.ip_network((int(its), _IPV6_PREFIX), strict=False))


@frozen
class Request:
    """A GET. headers: by their names in small letters. A body is not read."""

    path: str
    headers: Mapping[str, str]


@frozen
class HttpResponse:
    """An answer: pieces of its body, and their length in all."""

    status: HTTPStatus
    pieces: Iterable[bytes]
    length: int
    headers: Mapping[str, str] = field(default=Factory(dict))


class HttpServer:
    """Reads requests of HTTP/1 and writes what `admit` and `answer` say; one request a connection.

    Args:
        listening: a socket that is bound and listens. context: for TLS.
        admit: whether the client is answered; other clients get what it gives instead of None.
        answer: answers one that is admitted.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext | None,
        admit: Callable[[Request], Awaitable[HttpResponse | None]],
        answer: Callable[[Request], Awaitable[HttpResponse]],
    ) -> None:
        self._listening, self._context, self._admit, self._answer = listening, context, admit, answer
        self._connections = Connections(RequestLimits(MOST_OPEN, MOST_OF_ADDRESS, MOST_ANSWERED, REQUEST_S, ANSWER_S))

    async def accept(self) -> None:
        """Let clients in until this is cancelled."""
        try:
            await self._connections.accept(self._listening, self._serve)
        finally:
            await self._connections.close()

    async def _serve(self, connection: socket.socket) -> None:
        task, writer = asyncio.current_task(), None
        if task is None:
            return
        try:
            reader, writer = await self._open(connection)
            heard = await self._hear(reader)
            self._connections.asked(task)
            await _write(heard if isinstance(heard, HttpResponse) else await self._answer(heard), writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _log.debug("a client was lost: %r", error)  # ssl.SSLError is an OSError
        finally:
            if writer is not None:
                writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader) -> Request | HttpResponse:
        """A request that shall be answered, or what is said instead."""
        asked = parse(await reader.readuntil(b"\r\n\r\n"))
        return asked if isinstance(asked, HttpResponse) else await self._admit(asked) or asked

    async def _open(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        handshake_s = REQUEST_S if self._context else None
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=handshake_s
        )
        transport.set_write_buffer_limits(0)  # so that `drain` waits until all is taken
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def parse(head: bytes) -> Request | HttpResponse:
    """The request in the bytes up to the empty line, or the answer to one that is wrong."""
    first, *lines = head.decode("latin-1").split("\r\n")
    match first.split(" "):
        case ["GET", target, version] if version.startswith("HTTP/1."):
            pairs = (line.partition(":") for line in lines)
            return Request(target.partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs})
        case [_, _, version] if version.startswith("HTTP/1."):
            return text(HTTPStatus.METHOD_NOT_ALLOWED, "there is only GET\n", {"Allow": "GET"})
        case _:
            return text(HTTPStatus.BAD_REQUEST, "expected a request of HTTP/1.1\n")


def text(status: HTTPStatus, body: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """An answer in words."""
    data = body.encode()
    return HttpResponse(status, (data,), len(data), {"Content-Type": "text/plain", **(headers or {})})


async def _write(answer: HttpResponse, writer: asyncio.StreamWriter) -> None:
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}", f"Content-Length: {answer.length}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    writer.write("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
    for piece in answer.pieces:
        for start in range(0, len(piece), _PIECE_BYTES):
            writer.write(memoryview(piece)[start : start + _PIECE_BYTES])
            await writer.drain()
    await writer.drain()


# --- A rendered page that is compressed once and served often ---


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # RFC 1952: deflate, no name, no time, any system
_LEVEL: Final = 3  # a third of the time of level 6, for a quarter more bytes on loopback
_RAW: Final = -zlib.MAX_WBITS
_PIECE: Final = 1 << 18
_HEAD_LINES: Final = 2  # HELP and TYPE


@frozen
class Page:
    """Text in Prometheus' format, as the head of a deflate stream that more can follow.

    Attributes:
        crc: CRC-32 of the text. length: of the text in bytes.
    """

    deflated: bytes
    crc: int
    length: int

    def gzipped(self, tail: bytes) -> bytes:
        """The page and a tail as one gzip file."""
        packer = zlib.compressobj(_LEVEL, wbits=_RAW)
        end = packer.compress(tail) + packer.flush()
        trailer = struct.pack("<II", zlib.crc32(tail, self.crc), (self.length + len(tail)) & 0xFFFFFFFF)
        return b"".join((_GZIP_HEADER, self.deflated, end, trailer))

    def pieces(self) -> Iterator[bytes]:
        """The text, in pieces, for who does not understand gzip."""
        unpacker = zlib.decompressobj(_RAW)
        data = self.deflated
        while data:
            yield unpacker.decompress(data, _PIECE)
            data = unpacker.unconsumed_tail
        yield unpacker.flush()


class _One(Collector):
    """A family as generate_latest wants it."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def render(families: Iterable[Metric]) -> Page:
    """Render family by family: at no time is the whole text in memory.

    A large family may come in parts, one after another; their head is written once.
    """
    packer = zlib.compressobj(_LEVEL, wbits=_RAW)
    crc = length = 0
    packed = []
    before = ""
    for family in families:
        text = generate_latest(_One(family))
        if family.name == before:
            text = text.split(b"\n", _HEAD_LINES)[-1]
        before = family.name
        crc, length = zlib.crc32(text, crc), length + len(text)
        packed.append(packer.compress(text))
    packed.append(packer.flush(zlib.Z_SYNC_FLUSH))
    return Page(b"".join(packed), crc, length)


EMPTY: Final = render(())


# --- What a scrape gets: the page of the results as it was rendered last, and what is true at this moment ---


class ResultsSource:
    """Renders the results when the store is read, so that a scrape only has to hand them on."""

    def __init__(self, reader: ResultsReader) -> None:
        self._reader = reader
        self._registry = CollectorRegistry(auto_describe=False)
        self._results = Results(self._registry)
        self._page = EMPTY

    def read(self) -> Page:
        """The page of what the store says now; the one of before where that has not changed.

        Raises:
            BoardlabError: it cannot be read.
        """
        view = self._reader.read()
        if view != self._results.view:
            self._results.view = view
            self._page = render(self._registry.collect())
        return self._page


class Staleness(Collector):
    """Whether the results are of now. They stay while the store is away, and this says so."""

    def __init__(self, registry: CollectorRegistry, results: Poller[Page]) -> None:
        self._results = results
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        stale = GaugeMetricFamily(
            "boardlab_results_stale",
            "1: the store cannot be read, and all results are as of the last success of the collector `results`.",
        )
        stale.add_metric([], float(not self._results.fresh))
        yield stale


class ExporterBuild(Collector):
    """Which boardlab this is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        build = InfoMetricFamily("boardlab_exporter", "The version of boardlab that exports.")
        build.add_metric([], {"version": version("boardlab")})
        yield build


class Exposition:
    """All metrics; see exporters.server.ExpositionProtocol."""

    def __init__(self, results: Poller[Page] | None, live: CollectorRegistry) -> None:
        """results: None: of a host that has none."""
        self._results = results
        self._live = live

    @property
    def _head(self) -> Page:
        return (self._results and self._results.latest) or EMPTY

    def gzipped(self) -> bytes:
        """All metrics, compressed."""
        return self._head.gzipped(generate_latest(self._live))

    def plain(self) -> tuple[int, Iterable[bytes]]:
        """All metrics: length in bytes, and pieces of it."""
        head, tail = self._head, generate_latest(self._live)
        return head.length + len(tail), itertools.chain(head.pieces(), [tail])
