"""What stands between a lab and its power switch and strap relays: it passes on, refuses, hangs or fails on request."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal

import requests

from lab.virtual.ports import LOOPBACK, free_port

Mood = Literal["well", "refusing", "hanging", "failing"]
_PATIENCE_S = 120.0  # longer than anybody waits for a switch


class Switch:
    """One address for many outlets or straps, in front of the bench's own.

    `refusing` closes the port. `hanging` takes requests, and passes them on when it is over: whoever asked may have given
    up by then, as with a real switch that obeys late. `failing` answers with HTTP 500.
    """

    def __init__(self, upstream: int) -> None:
        """Listen, in threads of our own; `upstream` is a port of loopback."""
        self.port = free_port()
        self.mood: Mood = "well"
        self._upstream = upstream
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._server: ThreadingHTTPServer | None = None
        self._listen()

    def become(self, mood: Mood) -> None:
        """Change the mood; what hangs goes on."""
        self.mood = mood
        if mood == "hanging":
            self._goes_on.clear()
        else:
            self._goes_on.set()
        if mood == "refusing":
            self.close()
        elif self._server is None:
            self._listen()

    def close(self) -> None:
        """Listen no more."""
        self._goes_on.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def pass_on(self, method: str, path: str, body: bytes) -> requests.Response | None:
        """The answer to a request; None: the connection ends without one."""
        if self.mood == "failing":
            failed = requests.Response()
            failed.status_code = HTTPStatus.INTERNAL_SERVER_ERROR
            return failed
        self._goes_on.wait(_PATIENCE_S)
        try:
            with requests.Session() as session:
                session.trust_env = False
                url = f"http://{LOOPBACK}:{self._upstream}{path}"
                return session.request(method, url, data=body, timeout=_PATIENCE_S)
        except requests.RequestException:
            return None

    def _listen(self) -> None:
        switch = self

        class Handler(_Handler):
            behind = switch

        server = _Server((LOOPBACK, self.port), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._server = server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    behind: ClassVar[Switch]

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_PUT(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _pass_on(self, body: bytes) -> None:
        answer = self.behind.pass_on(self.command, self.path, body)
        if answer is None:
            return
        try:
            self.send_response_only(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content or b"")))
            self.end_headers()
            self.wfile.write(answer.content or b"")
        except OSError:
            return  # whoever asked has gone

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""
