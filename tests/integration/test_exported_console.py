"""Our exporter at a real coordinator: stock clients and our readers share a port, and the console server outlives the exporter."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial
from support.console_bench import ConsoleBench, read_bytes, running_bench
from support.coordinator import client, running_coordinator
from support.exported import EXPORTER, make_place, running_exporter, serial_port, shown, tcp_port
from support.prometheus_server import until

from lab.console.published import PREFIX
from lab.host.runtime import socket_path
from lab.places.coordinator import Coordinator
from lab.places.place import Place
from lab.places.records import MissingResource, job_user, stock_user

DEADLINE_S = 60


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[str]:
    with running_coordinator(tmp_path) as address:
        make_place(address)
        yield address


@pytest.fixture
def bench() -> Iterator[ConsoleBench]:
    with running_bench() as bench:
        yield bench


def stock(port: int) -> serial.SerialBase:
    """As labgrid's SerialDriver opens it."""
    return serial.serial_for_url(f"rfc2217://127.0.0.1:{port}?ign_set_control&timeout=60", baudrate=115200, timeout=60)


def test_a_stock_client_and_ours_share_a_port_that_outlives_the_exporter(
    bench: ConsoleBench, coordinator: str, tmp_path: Path
) -> None:
    adapter = bench.adapter()
    with (
        bench.client() as ours,
        running_exporter(coordinator, tmp_path, bench.runtime, serial_port(adapter.link)) as exporter,
    ):
        info = ours.open(adapter.link)
        ours.attach(info.name, since=info.position)
        client(coordinator, "-p", "b1", "acquire")
        until(lambda: tcp_port(coordinator) > 0, "the port is served")
        said = shown(coordinator)
        assert f"'{PREFIX}socket': '{socket_path(bench.runtime)}'" in said
        assert f"'{PREFIX}device': '{adapter.link}'" in said
        assert "'protocol': 'rfc2217'" in said
        theirs = stock(tcp_port(coordinator))
        adapter.say(b"both \xff hear this")
        assert theirs.read(16) == b"both \xff hear this"
        assert b"".join(chunk.data for chunk in read_bytes(ours, 16)) == b"both \xff hear this"
        theirs.write(b"typed \xff there")
        assert adapter.heard(13) == b"typed \xff there"
        theirs.close()
        until(lambda: ours.status().ports[0].writer is None, "the stock client has hung up")

        ours.attach(info.name, write=True)
        theirs = stock(tcp_port(coordinator))
        theirs.write(b"nobody hears this")
        assert b"read only" in theirs.read_until(b"]")
        ours.write(b"only this")
        assert adapter.heard(9) == b"only this"

        exporter.send_signal(signal.SIGKILL)
        assert exporter.wait(DEADLINE_S) == -signal.SIGKILL
        adapter.say(b"still read")
        assert b"".join(chunk.data for chunk in read_bytes(ours, 10)) == b"still read"
        theirs.close()


def test_a_console_server_that_is_away_takes_the_port_away_until_it_is_back(
    bench: ConsoleBench, coordinator: str, tmp_path: Path
) -> None:
    adapter = bench.adapter()
    bench.client().close()
    bench.end_server()
    with running_exporter(coordinator, tmp_path, bench.runtime, serial_port(adapter.link)):
        log = tmp_path / "exporter.log"
        until(lambda: "no serial port is exported" in log.read_text(), "the exporter says that the server is missing")
        assert "'avail': False" in shown(coordinator)
        assert Coordinator(coordinator).lacking() == {"b1": MissingResource("port", EXPORTER)}
        with bench.client():
            until(lambda: not Coordinator(coordinator).lacking(), "the port is there again")
            client(coordinator, "-p", "b1", "acquire")
            until(lambda: tcp_port(coordinator) > 0, "the port is served")
            theirs = stock(tcp_port(coordinator))
            adapter.say(b"hello")
            assert theirs.read(5) == b"hello"
            theirs.close()


MICROCOM = """
import socket, sys
from pathlib import Path
host, _, port = sys.argv[sys.argv.index("-t") + 1].rpartition(":")
with socket.create_connection((host, int(port)), timeout=60) as console:
    console.sendall(b"nobody hears this")
    said = b""
    while b"read only" not in said and (more := console.recv(4096)):
        said += more
Path(__file__).with_name("said").write_bytes(said)
"""


def test_labgrids_console_shows_whose_job_has_the_place_what_it_reads_and_the_job_stays_the_writer(
    bench: ConsoleBench, coordinator: str, tmp_path: Path
) -> None:
    adapter = bench.adapter()
    microcom = tmp_path / "microcom"
    microcom.write_text(f"#!{sys.executable}\n{MICROCOM}")
    microcom.chmod(0o755)
    lena = stock_user("lena", {})
    words = ("-p", "b1", "console")
    environ = {**lena.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    listen = ("--listen", "0.0.0.0")  # noqa: S104 - on loopback stock clients come through ssh
    exporter = running_exporter(coordinator, tmp_path, bench.runtime, serial_port(adapter.link), *listen)
    job = job_user("lena", "j12", "/a/results.db")
    with bench.client() as run, exporter:
        until(lambda: not Coordinator(coordinator).lacking(), "the port is there")
        with Place("b1", coordinator).hold(job, lena, lambda _: False):
            until(lambda: tcp_port(coordinator) > 0, "the port is served")
            run.attach(run.open(adapter.link).name, write=True)
            client(coordinator, *words, **environ)
            assert b"read only" in (tmp_path / "said").read_bytes()
            run.write(b"only this")
            assert adapter.heard(9) == b"only this"
            with pytest.raises(AssertionError, match=r"acquired.*your user"):
                client(coordinator, *words, **environ | {"LG_USERNAME": "bob"})
        with pytest.raises(AssertionError, match="is not acquired"):
            client(coordinator, *words, **environ)
