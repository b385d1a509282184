from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.virtual import ports


def test_a_port_in_use_is_refused_with_its_owner_and_a_way_out() -> None:
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf":{port} is in use by process {os.getpid()} .*--pdu-port"):
            ports.require_free(port, "--pdu-port")


def test_a_free_port_is_accepted() -> None:
    ports.require_free(ports.free_port(), "--pdu-port")


def test_a_free_port_is_none_that_the_kernel_gives_to_others_meanwhile() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    assert all(1024 <= ports.free_port() < first for _ in range(100))


def test_where_the_kernel_gives_every_port_one_of_those_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "_RANGE", everything)
    ports.require_free(ports.free_port(), "--pdu-port")


def test_a_server_that_just_ended_does_not_keep_its_port() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection((ports.LOOPBACK, port))
        accepted, _ = server.accept()
        accepted.close()
        client.close()  # the server's side waits in TIME_WAIT
    ports.require_free(port, "--pdu-port")
