"""ASGI application of the exporter: /metrics and /-/healthy.

/metrics is a page that was rendered in the background.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from exporters.metrics import Results
from exporters.poller import Poller
from exporters.results import ResultsReader
from lab.http import connections
from lab.http.access import Guard, OneAtATime
from lab.http.server import LimitedServer, listening_socket
from lab.http.web_config import WebConfig

MOST_ANSWERED: Final = 8  # scrapes at once; each may hold a page
_INDEX: Final = '<!doctype html><title>boardlab</title><h1>boardlab exporter</h1><p><a href="/metrics">metrics</a>\n'


class ExporterServer:
    """Serves an exposition, in the thread that calls `serve_forever`."""

    def __init__(self, host: str, port: int, exposition: Exposition, config: WebConfig | None) -> None:
        """Listen.

        Raises:
            LabStableError: the address cannot be listened at.
            ConfigurationError: the web-config's certificates cannot be used.
        """
        self._by_name = config is not None and (config.authenticates or config.tls_server_config is not None)
        self._guard, self._one_at_a_time = Guard(config), OneAtATime()
        self._server = LimitedServer(
            application(exposition),
            config,
            admit=self._admit,
            answering=MOST_ANSWERED,
            answer_s=connections.ANSWER_S,
            headers=[("Connection", "close")],
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._listening = listening_socket(host, port)
        name, number = self._listening.getsockname()[:2]
        scheme = "https" if self._server.config.is_ssl else "http"
        self.url = f"{scheme}://{f'[{name}]' if ':' in name else name}:{number}/metrics"

    def serve_forever(self) -> None:
        """Answer until `shutdown`."""
        self._server.run([self._listening])

    def shutdown(self) -> None:
        """End `serve_forever`; any thread and a signal's handler may call it."""
        self._server.should_exit = True

    def close(self) -> None:
        """Listen no more."""
        self._listening.close()

    async def _admit(self, request: Request) -> Response | None:
        """Response to a refused request; None: it is admitted."""
        if not self._by_name and not is_address(request.headers.get("host", "")):
            return PlainTextResponse("ask by address, e.g. 127.0.0.1, not by name\n", 403)
        header = request.headers.get("authorization")
        if self._guard.knows(header) or await self._one_at_a_time(self._guard.admits, header or ""):
            return None
        return PlainTextResponse("a password is needed\n", 401, {"WWW-Authenticate": "Basic"})


def application(exposition: Exposition) -> Starlette:
    """The ASGI application of an exposition."""

    async def metrics(request: Request) -> Response:
        headers = {"Content-Type": CONTENT_TYPE}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            length, pieces = exposition.plain()  # unpacked in a thread
            return StreamingResponse(pieces, headers={**headers, "Content-Length": str(length)})
        return PackedResponse(exposition.gzip(), headers={**headers, "Content-Encoding": "gzip"})

    async def healthy(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def index(_request: Request) -> Response:
        return HTMLResponse(_INDEX)

    return Starlette(routes=[Route("/metrics", metrics), Route("/-/healthy", healthy), Route("/", index)])


class PackedResponse(Response):
    """Response of pieces in memory, sent without a copy or a task."""

    def __init__(self, pieces: Sequence[bytes | memoryview], headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "Content-Length": str(sum(map(len, pieces)))})
        self._pieces = pieces

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the head, then piece by piece."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for left, piece in zip(range(len(self._pieces))[::-1], self._pieces, strict=True):
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})


def is_address(host: str) -> bool:
    """Tell if a Host header, or none, has an address or localhost.

    Any other name may be a web page's whose name server gives 127.0.0.1, in a browser of this host (DNS rebinding).
    """
    name = re.sub(r":\d*$", "", host).strip("[]")
    if not name or name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # RFC 1952: deflate, no name, no time, any system
_LEVEL: Final = 3  # a third of the time of level 6, for a quarter more bytes on loopback
_RAW: Final = -zlib.MAX_WBITS
_GZIP: Final = 16  # with its header, to zlib
_PIECE: Final = 1 << 18
_HEAD_LINES: Final = 2  # HELP and TYPE


@frozen
class Page:
    """Head of a gzip file with text in Prometheus' format, compressed once and served often.

    Attributes:
        packed: without the end of its deflate stream.
        crc: CRC-32 of the text.
        length: of the text in bytes.
    """

    packed: bytes
    crc: int
    length: int

    def gzip(self, tail: bytes) -> list[bytes | memoryview]:
        """Pieces of the page and tail as gzip file."""
        packer = zlib.compressobj(_LEVEL, wbits=_RAW)
        trailer = struct.pack("<II", zlib.crc32(tail, self.crc), (self.length + len(tail)) & 0xFFFFFFFF)
        view = memoryview(self.packed)
        head = [view[start : start + _PIECE] for start in range(0, len(view), _PIECE)]
        return [*head, packer.compress(tail) + packer.flush() + trailer]

    def pieces(self) -> Iterator[bytes]:
        """The text, in pieces, for clients without gzip."""
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | _GZIP)
        data = self.packed
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
    """Render family by family, without the whole text in memory.

    A large family may come in parts, one after another; their head is written once.
    """
    packer = zlib.compressobj(_LEVEL, wbits=_RAW)
    crc = length = 0
    packed = [_GZIP_HEADER]
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


class ResultsSource:
    """Renders the results when the store is read, not per scrape."""

    def __init__(self, reader: ResultsReader) -> None:
        self._reader = reader
        self._registry = CollectorRegistry(auto_describe=False)
        self._results = Results(self._registry)
        self._page = EMPTY

    def read(self) -> Page:
        """Page of the store's results, rendered again after a change.

        Raises:
            BoardlabError: the store cannot be read.
        """
        view = self._reader.read()
        if view is not self._results.view and view != self._results.view:
            self._results.view = view
            self._page = render(self._registry.collect())
        return self._page


class Exposition:
    """All metrics: rendered results and live ones."""

    def __init__(self, results: Poller[Page] | None, live: CollectorRegistry) -> None:
        """Args: results: None on a host without them."""
        self._results = results
        self._live = live

    @property
    def _head(self) -> Page:
        return (self._results and self._results.latest) or EMPTY

    def gzip(self) -> list[bytes | memoryview]:
        """All metrics, compressed: pieces of it."""
        return self._head.gzip(generate_latest(self._live))

    def plain(self) -> tuple[int, Iterable[bytes]]:
        """All metrics: length in bytes, and pieces of it."""
        head, tail = self._head, generate_latest(self._live)
        return head.length + len(tail), itertools.chain(head.pieces(), [tail])
