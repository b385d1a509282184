"""TFTP and HTTP server of a folder: `python -m lab.provision.writers.file_server FOLDER ...`.

It ends when its standard input is closed, so it never outlives its parent. TFTP (RFC 1350, with the options of RFC
2347 to 2349) is tftpy's; HTTP is the standard library's. Both only read, and only below the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Final

from attrs import frozen

from lab.errors import ConfigurationError, LabStableError, LabTransientError

LOOPBACK: Final = "127.0.0.1"
TFTP_PORT: Final = 69
_READY: Final = "ready"
_START_S: Final = 20.0


@frozen
class ServedFolder:
    """A folder that is given out. tftp_port, http_port: where; of `address`."""

    folder: Path
    address: str
    tftp_port: int
    http_port: int


@contextlib.contextmanager
def serving(folder: Path, address: str = LOOPBACK, tftp_port: int = 0) -> Iterator[ServedFolder]:
    """Give out a folder as long as the context lasts.

    Args:
        address: of this host, where to listen; a board reaches loopback only through QEMU.
        tftp_port: 0: a free one, which takes a U-Boot with CONFIG_TFTP_PORT; 69 takes root, or the capability
            CAP_NET_BIND_SERVICE.

    Raises:
        ConfigurationError: the port is not this user's to open, or the address is not this host's.
        LabStableError: another program has the port.
    """
    command = [sys.executable, "-P", "-m", __name__, str(folder), "--address", address, "--tftp-port", str(tftp_port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            timer = threading.Timer(_START_S, process.kill)
            timer.start()
            line = process.stdout.readline() if process.stdout else ""
            timer.cancel()
            word, _, rest = line.strip().partition(" ")
            if word != _READY:
                raise _start_error(rest or "it did not start", address, tftp_port)
            first, second = map(int, rest.split())
            yield ServedFolder(folder, address, first, second)
        finally:
            process.kill()


def _start_error(reason: str, address: str, port: int) -> ConfigurationError | LabStableError | LabTransientError:
    kind, _, text = reason.partition(": ")
    where = f"{address}, UDP port {port}"
    if kind == "PermissionError":
        return ConfigurationError(
            f"{where}: this user may not open a port below 1024. Let it (sysctl "
            "net.ipv4.ip_unprivileged_port_start=69), or give the U-Boot CONFIG_TFTP_PORT and the env another port"
        )
    if "in use" in text:
        return LabStableError(
            f"{where}: another TFTP server has it. End that one, or give the env another port", failure="tftp_timeout"
        )
    if "assign" in text:
        return ConfigurationError(f"{where}: not an address of this host; `ip address` lists them. Mend it in the env")
    return LabTransientError(f"{where}: the server for the board did not start: {reason}", failure="tftp_timeout")


class _Files(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # the end of a file is the end of the connection: what busybox's wget likes best

    def log_message(self, *_words: Any) -> None:
        """Nothing: what is served is the caller's to tell."""

    def list_directory(self, _path: Any) -> None:
        """No lists."""
        self.send_error(404)

    def copyfile(self, source: IO[bytes], outputfile: IO[bytes]) -> None:  # type: ignore[override]
        """A board that leaves early is no error."""
        with contextlib.suppress(ConnectionError):
            super().copyfile(source, outputfile)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until standard input is closed."""
    import tftpy  # noqa: PLC0415 - only this process needs it

    parser = argparse.ArgumentParser(prog=f"python -m {__name__}")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", default=LOOPBACK)
    parser.add_argument("--tftp-port", type=int, default=0)
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    try:
        http = ThreadingHTTPServer((options.address, 0), partial(_Files, directory=str(options.folder)))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        tftp = tftpy.TftpServer(str(options.folder), upload_open=_no_uploads)

        def tell() -> None:
            """Tell the parent both ports, and end with it."""
            tftp.is_running.wait()
            _say(f"{_READY} {tftp.listenport} {http.server_address[1]}")
            sys.stdin.read()
            os._exit(0)

        threading.Thread(target=tell, daemon=True).start()
        tftp.listen(options.address, options.tftp_port)
    except OSError as error:
        _say(f"failed {type(error).__name__}: {error}")


def _say(line: str) -> None:
    """To the parent, which waits for it."""
    os.write(1, f"{line}\n".encode())


def _no_uploads(_path: object, _context: object) -> None:
    """Nothing is taken from a board."""


if __name__ == "__main__":
    main()
