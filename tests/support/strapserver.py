"""A switch of boot-mode straps behind HTTP that misbehaves on request, as relays and the networks before them do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field


@define(eq=False, slots=False)
class StrapServer:
    """Obeys PUT and GET of /bitN; `trouble` says what it does in the place of an answer.

    Attributes:
        trouble: "" obeys; "hang" never answers; "drip" sends its answer a byte at a time, for ever; "500", "404";
            "rubbish" says what is no level; "json" obeys, and says its level as JSON; "no http" is not even HTTP; "reset" ends the connection.
        asked: how many requests came.
        left: how many times of `trouble`, before it obeys again; None: for ever.
    """

    trouble: str = ""
    left: int | None = None
    asked: int = 0
    levels: dict[str, bytes] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.released = threading.Event()
        straps = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self._obeys():
                    straps.levels[self.path] = body
                    self._answer(200, b"done")

            def do_GET(self) -> None:
                if self._obeys():
                    level = straps.levels.get(self.path, b"off")
                    self._answer(200, b'{"state": "%s"}' % level if straps.trouble == "json" else level)

            def _obeys(self) -> bool:
                straps.asked += 1
                trouble = straps._next()
                if trouble in {"", "json"}:
                    return True
                self.close_connection = True
                if trouble == "hang":
                    straps.released.wait(60)
                elif trouble == "drip":
                    self._drip()
                elif trouble.isdigit():
                    self._answer(int(trouble), b"no")
                elif trouble == "rubbish":
                    self._answer(200, b"\x1b[2Jmaybe")
                elif trouble == "no http":
                    self.wfile.write(b"220 relay FTP server ready\r\n")
                return False

            def _drip(self) -> None:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                while not straps.released.wait(0.02):
                    try:
                        self.wfile.write(b"x")
                    except OSError:
                        return

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01))
        self._thread.start()

    def _next(self) -> str:
        if self.left == 0:
            return ""
        if self.left is not None:
            self.left -= 1
        return self.trouble

    def close(self) -> None:
        """Let go of everybody, and stop."""
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def strap_server() -> Iterator[StrapServer]:
    """A server, that ends with the block."""
    server = StrapServer()
    try:
        yield server
    finally:
        server.close()


def nobody() -> str:
    """The URL of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"
