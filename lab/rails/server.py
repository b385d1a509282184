"""The sensors of this host for who measures from another one: `lab rails serve`, a program of its own like the console server.

It listens on a socket in the runtime folder, for its user alone. A client sends one line of JSON, and gets one back; what it asked
for is sampled here, by the sampler of `lab.rails.process`, with stamps of this host's clock, and the trace follows as it grows. How a
client ends it, and how it comes back to it after its connection was cut, is in `lab.rails.kept`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import socketserver
from pathlib import Path
from typing import Any, Final

import cattrs

from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import MonotonicRaw, time_line
from lab.host.runtime import prepare
from lab.rails import live
from lab.rails.config import RailsConfig
from lab.rails.kept import KeptSamplings
from lab.rails.model import Range

REQUEST_BYTES: Final = 1 << 20
_log = logging.getLogger(__name__)


def rails_socket(runtime: Path) -> Path:
    """Where it listens."""
    return runtime / "rails.sock"


def serve(runtime: Path) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        ConfigurationError: the folder is no good, or another one serves there.
    """
    address = rails_socket(prepare(runtime))
    with (runtime / "rails.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"{runtime}: a rails server runs there already; `--runtime` chooses another folder"
            ) from error
        address.unlink(missing_ok=True)  # of one that was killed
        os.environ["BOARDLAB_RUNTIME"] = str(runtime)  # where samplers tell how they do
        mask = os.umask(0o177)
        try:
            server = Server(str(address), Client)
        finally:
            os.umask(mask)
        with server:
            try:
                server.serve_forever()
            finally:
                address.unlink(missing_ok=True)


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True  # its samplers watch a pipe that the kernel closes with this process

    def __init__(self, address: str, handler: type[socketserver.BaseRequestHandler]) -> None:
        super().__init__(address, handler)
        self.kept = KeptSamplings()


class Client(socketserver.StreamRequestHandler):
    server: Server
    _begun = False  # a trace: nothing else may be said then

    def handle(self) -> None:
        try:
            try:
                self._answer(json.loads(self.rfile.readline(REQUEST_BYTES)))
            except (ValueError, TypeError, KeyError, AttributeError, cattrs.BaseValidationError) as error:
                raise ConfigurationError(
                    f"the rails server of this host does not understand what it is asked ({error}): it is of another boardlab; update both"
                ) from error
        except BoardlabError as error:
            _log.warning("%s", error)
            if self._begun:  # the client sees a trace without its end
                return
            document = {"error": str(error), "configuration": isinstance(error, ConfigurationError)}
            with contextlib.suppress(OSError):
                self._say({**document, "failure": error.failure})
        except OSError as error:  # the client is gone
            _log.info("a client is gone: %s", error)

    def _answer(self, asked: Any) -> None:
        if "resume" in asked:
            self.server.kept.resume(
                str(asked["resume"]), self.connection, int(asked["offset"]), lambda: self._begin({"line": time_line()})
            )
            return
        config, wanted = cattrs.structure(asked["config"], RailsConfig), Range(asked["range"])
        if "seconds" in asked:
            views = live.watch(config, wanted, MonotonicRaw(), float(asked["seconds"]))
            try:
                volts = {now.rail: now.volts for now in next(views) if now.volts is not None}
            finally:
                views.close()
            self._say({"line": time_line(), "volts": volts})
            return

        def begin(name: str) -> None:
            self._begin({"line": time_line(), "trace": name, "now_ns": MonotonicRaw().now_ns()})

        self.server.kept.sample(config, wanted, self.connection, begin, keeps=bool(asked.get("keeps")))

    def _begin(self, document: dict[str, object]) -> None:
        self._say(document)
        self._begun = True

    def _say(self, document: dict[str, object]) -> None:
        self.connection.sendall(json.dumps(document).encode() + b"\n")
