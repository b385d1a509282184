"""The bench's TCP ports are its user's, not every local user's."""

from __future__ import annotations

import ast
import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path

import pytest
from support import strangers

from lab import boards
from lab.host.clock import MonotonicRaw
from lab.virtual import http, ports
from lab.virtual.pdudaemon import Gate, House
from lab.virtual.ports import Owner
from lab.virtual.rails.iiod import Iiod
from lab.virtual.rails.sensors import Rails
from lab.virtual.tcp import TcpUart
from lab.virtual.truth_log import TruthLog
from lab.virtual.uart import Pacer, UartAdapter

VIRTUAL = Path(ports.__file__).parent
REQUEST = b"GET /cm?cmnd=Power1%20On HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POWER_ON = b"GET /power/control/on?hostname=bench&port=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# A listener, root's connection, one of user 1000, one whose program has closed it, and the other ends of the last two.
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4025 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 15771 1 0000000000000000 100 0
   1: 0100007F:BB78 0100007F:4025 01 00000000:00000000 00:00000000 00000000     0        0 15772 1 0000000000000000 20 4
   2: 0100007F:BB7A 0100007F:4025 01 00000000:00000000 00:00000000 00000000  1000        0 15780 1 0000000000000000 20 4
   3: 0100007F:BB7C 0100007F:4025 04 00000001:00000000 01:00000014 00000000     0        0 0 2 0000000000000000 20 4 0
   4: 0100007F:4025 0100007F:BB7A 01 00000000:00000000 00:00000000 00000000  1001        0 15781 1 0000000000000000 20 4
   5: 0100007F:4025 0100007F:BB7C 08 00000000:00000001 00:00000000 00000000  1001        0 15782 1 0000000000000000 20 4
"""


def served(body: Callable[[str, list[bytes]], Awaitable[None]]) -> None:
    """Run `body` with the address of a guarded server, and with what it let in."""

    async def run() -> None:
        heard: list[bytes] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.read(100))
            writer.write(b"welcome")
            writer.close()

        server = await ports.listen(connected, (ports.LOOPBACK, 0), refusal=b"go away")
        async with server:
            await body("{}:{}".format(*server.sockets[0].getsockname()), heard)

    asyncio.run(run())


def test_our_own_user_is_served() -> None:
    async def body(address: str, heard: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection(ports.LOOPBACK, int(address.partition(":")[2]))
        writer.write(b"hello")
        assert await reader.read() == b"welcome"
        assert heard == [b"hello"]
        writer.close()

    served(body)


def test_another_user_is_told_once_in_the_log_and_never_heard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(address: str, heard: list[bytes]) -> None:
        for _ in range(3):
            assert await asyncio.to_thread(strangers.ask, address, b"hello") == b"go away"
        assert heard == []

    with strangers.another_user(monkeypatch) as uid:
        served(body)
    (record,) = caplog.records
    assert f"refused user {uid}" in record.getMessage()


def test_a_stranger_who_leaves_at_once_is_not_taken_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    with strangers.another_user(monkeypatch), socket.create_server((ports.LOOPBACK, 0)) as listening:
        strangers.ask("{}:{}".format(*listening.getsockname()), b"hello", leave=True)
        accepted, _ = listening.accept()
        with accepted:
            owner = ports.peer_owner(accepted)
            assert owner is None or not owner.may_use(ports.os.getuid())
            assert accepted.recv(100) == b"hello"


def test_a_client_that_is_gone_is_nobody() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as listening:
        with socket.create_connection(listening.getsockname()) as client:
            accepted, _ = listening.accept()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        with accepted:
            assert ports.peer_owner(accepted) is None


def test_the_kernel_and_its_table_say_the_same() -> None:
    with (
        socket.create_server((ports.LOOPBACK, 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        local, remote = client.getsockname(), client.getpeername()
        expected = Owner(os.getuid(), os.fstat(client.fileno()).st_ino)
        assert ports.find_in_table(Path("/proc/net/tcp").read_text(), local, remote) == expected
        assert ports.ask_kernel(local, remote) in {expected, None}  # None: a kernel without CONFIG_INET_DIAG
        accepted, _ = listening.accept()
        with accepted:
            assert ports.peer_owner(accepted) == expected


@pytest.mark.parametrize(
    ("port", "owner", "admitted"),
    [
        (0xBB78, Owner(0, 15772), True),  # root
        (0xBB7A, Owner(1000, 15780), False),  # another user
        (0xBB7C, Owner(0, 0), False),  # called root's, but closed: anybody's
        (0xBB7E, None, False),
    ],
)
def test_who_is_in_the_kernels_table(port: int, owner: Owner | None, admitted: bool) -> None:
    found = ports.find_in_table(TABLE, (ports.LOOPBACK, port), (ports.LOOPBACK, 0x4025))
    assert found == owner
    assert (found is not None and found.may_use(1001)) is admitted


def test_the_users_own_connection_is_admitted() -> None:
    assert Owner(1000, 5).may_use(1000)
    assert not Owner(1000, 5).may_use(0)  # root's bench is root's alone


def test_every_server_of_the_bench_is_behind_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def answer(request: http.Request) -> http.JsonResponse:
        asked.append(request.path)
        return http.JsonResponse(HTTPStatus.OK, {})

    async def run() -> None:
        clock, truth = MonotonicRaw(), TruthLog(tmp_path / "truth.log", 115200)
        pacer = Pacer(clock, asyncio.get_running_loop())
        adapter = UartAdapter(tmp_path / "uart0", pacer, truth)
        adapter.listen(lambda data: asked.append(data.decode()))
        uart, switch, gate = TcpUart(adapter.path), await http.serve(0, answer), Gate(0, "bench", [])
        rails = Rails(boards.load("am62xx_sk"), "11.01", 0, lambda: (), truth.note)
        iiod = await Iiod(rails, "board", clock).serve(socket.create_server((ports.LOOPBACK, 0)))
        gate.house = House(switch.sockets[0].getsockname()[1], "secret")
        try:
            for address, said in (
                (await uart.listen(0), b"reboot\r"),
                ("{}:{}".format(*switch.sockets[0].getsockname()), REQUEST),
                ("{}:{}".format(*iiod.sockets[0].getsockname()), b"PRINT\r\n"),
                (await gate.open(), POWER_ON),
            ):
                told = await asyncio.to_thread(strangers.ask, address, said)
                assert told == b"" or told.startswith(b"HTTP/1.1 403 ")
            assert asked == []
        finally:
            for server in (switch, iiod, gate):
                server.close()
            await uart.close()
            adapter.close()
            pacer.close()
            truth.close()

    with strangers.another_user(monkeypatch):
        asyncio.run(run())


def listeners(path: Path) -> list[str]:
    """Calls by which a module would listen on TCP."""
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = {"start_server", "create_server", "TCPServer", "HTTPServer", "ThreadingHTTPServer", "ThreadingTCPServer"}
    return [call.attr for call in calls if isinstance(call, ast.Attribute) and call.attr in names]


def test_nothing_of_the_bench_listens_past_the_guard(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import asyncio\nasyncio.start_server(print)\n")
    assert listeners(tmp_path / "bad.py") == ["start_server"]
    found = {str(path.relative_to(VIRTUAL)): calls for path in VIRTUAL.rglob("*.py") if (calls := listeners(path))}
    # The rails' socket is made early, for its number; its clients come in through Iiod.serve.
    assert found == {"ports.py": ["start_server", "start_server"], "rails/wiring.py": ["create_server"]}


@pytest.mark.parametrize(
    "header",
    [
        "Host: evil.example",
        "Host: 127.0.0.1\r\nOrigin: http://evil.example",
        "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site",
    ],
)
def test_a_page_in_the_users_browser_is_refused(header: str) -> None:
    answer = http.parse(f"GET /cm?cmnd=Power1%20On HTTP/1.1\r\n{header}\r\n\r\n".encode())
    assert isinstance(answer, http.JsonResponse)
    assert answer.status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "header", ["Host: 127.0.0.1:16422", "Host: localhost", "X: y", "Host: [::1]:80", "Sec-Fetch-Site: none"]
)
def test_who_calls_the_bench_by_its_address_is_heard(header: str) -> None:
    request = http.parse(f"GET /status HTTP/1.1\r\n{header}\r\n\r\n".encode())
    assert request == http.Request("/status", {})
