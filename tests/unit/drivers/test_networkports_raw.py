"""A port of a stock exporter: a host that goes without a word is noticed."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from serial import rfc2217

from lab.drivers.networkports import RAW, RFC2217, RawTcpClient, RawTcpPort


class Line:
    """The settings that a server of RFC 2217 tells."""

    baudrate, bytesize, parity, stopbits = 115200, 8, "N", 1
    dtr = rts = cts = dsr = cd = True
    ri = xonxoff = rtscts = break_condition = False

    def reset_input_buffer(self) -> None: ...
    def reset_output_buffer(self) -> None: ...


def serve(listener: socket.socket) -> None:
    """RFC 2217, which raw TCP does not notice."""
    guest, _ = listener.accept()
    with guest, contextlib.suppress(OSError):
        telnet: Any = rfc2217.PortManager(Line(), SimpleNamespace(write=guest.sendall))
        while data := guest.recv(4096):
            b"".join(telnet.filter(data))


@pytest.mark.parametrize("protocol", [RAW, RFC2217])
def test_the_connection_is_looked_after_by_the_kernel(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        client = RawTcpClient(RawTcpPort("127.0.0.1", listener.getsockname()[1], protocol, 115200))
        line = client._line if protocol == RAW else client._line._line
        assert line._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert line._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0
        client.close()
        thread.join()
