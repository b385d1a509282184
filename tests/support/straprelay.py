"""The wires to the straps of a host's simulated boards, from the network: `straprelay.py ADDRESS PORT BENCH.JSON`.

A relay card has an address in the lab's network; the bench's straps are behind a port of loopback, another one after each start.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import requests

LIMIT_S = 10


class Relay(BaseHTTPRequestHandler):
    """Asks the bench."""

    bench: Path

    def do_GET(self) -> None:
        """What a strap is."""
        self._pass_on(None)

    def do_PUT(self) -> None:
        """Set it."""
        self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_args: object) -> None:
        """Nobody reads it."""

    def _pass_on(self, data: bytes | None) -> None:
        try:
            address = json.loads(self.bench.read_text())["http"]
            answer = requests.request(self.command, f"http://{address}{self.path}", data=data, timeout=LIMIT_S)
        except (OSError, ValueError, KeyError):  # the bench is away
            self.send_error(503)
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)


if __name__ == "__main__":
    Relay.bench = Path(sys.argv[3])
    ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Relay).serve_forever()
