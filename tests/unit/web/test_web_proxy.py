"""A reverse proxy with its own login before the site: who it names comes in, and nobody passes for it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from support import recorded_run
from support.web_people import users
from support.web_serving import serving

from lab.results import open_store
from lab.results.audit import DONE, Audit
from lab.web.auth import Access, Proxy
from lab.web.site import Site

HEADER = "X-Auth-Request-Preferred-Username"
PROXY = "127.0.0.2"  # of loopback, but another address than this test's own requests come from
BOARD = "SK-AM62-0042"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    with open_store(str(tmp_path / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=1)
    access = Access(users=users(tmp_path), proxy=Proxy(frozenset({PROXY}), HEADER))
    with serving(Site(str(tmp_path / "results.db"), runtime=tmp_path, folder=tmp_path), access=access) as url:
        yield url


@contextmanager
def proxying(site: str, person: str, removes: bool = True) -> Iterator[str]:
    """A proxy that has let a person in; one that does not remove the header from what it is sent is configured wrong."""

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            sent = [
                (name, text) for name, text in self.headers.items() if not (removes and name.lower() == HEADER.lower())
            ]
            answer = asked(site, [*sent, (HEADER, person)], self.path, self.command, body)
            data = answer.read()
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def asked(
    site: str,
    headers: Sequence[tuple[str, str]],
    path: str = "/api/v1/runs",
    method: str = "GET",
    body: bytes = b"",
    source: str = PROXY,
) -> http.client.HTTPResponse:
    """The site's answer to a request that has exactly these headers, also twice."""
    to = urlsplit(site)
    connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=60, source_address=(source, 0))
    connection.putrequest(method, path, skip_host=any(name.lower() == "host" for name, _ in headers))
    for name, text in headers:
        connection.putheader(name, text)
    connection.endheaders(body)
    return connection.getresponse()


def test_who_the_proxy_names_looks_and_acts_by_the_role_of_the_file(site: str, tmp_path: Path) -> None:
    for person, role, status in (
        ("olga", "operator", 303),
        ("vera", "viewer", 403),
        ("nina@lab.example", "viewer", 403),
    ):
        with proxying(site, person) as url:
            browser = requests.Session()
            browser.trust_env = False
            page = browser.get(f"{url}/boards/{BOARD}", headers={"Accept": "text/html"}, timeout=60)
            assert f"{person}, {role}" in page.text
            csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
            done = browser.post(
                f"{url}/boards/{BOARD}/reserve",
                data={"csrf": csrf or "x", "hours": "1", "reason": "through the proxy"},
                headers={"Origin": url},
                allow_redirects=False,
                timeout=60,
            )
            assert done.status_code == status, done.text
    with open_store(str(tmp_path / "results.db")) as store:
        nina, vera, olga = Audit(store).entries(action="reserve")
    assert (olga.person, olga.about, olga.outcome) == ("olga", "1 h: through the proxy", DONE)
    assert [each.person for each in (nina, vera)] == ["nina@lab.example", "vera"]
    assert DONE not in {nina.outcome, vera.outcome}


@pytest.mark.parametrize("name", [HEADER, HEADER.lower(), HEADER.upper()])
def test_what_a_browser_sends_under_the_header_is_not_believed(site: str, name: str) -> None:
    with proxying(site, "vera") as url:
        page = requests.get(f"{url}/boards/{BOARD}", headers={name: "olga", "Accept": "text/html"}, timeout=60)
    assert "vera, viewer" in page.text
    assert "olga" not in page.text


def test_a_proxy_that_lets_the_header_through_lets_nobody_in(site: str) -> None:
    with proxying(site, "vera", removes=False) as url:
        assert requests.get(f"{url}/api/v1/runs", timeout=60).status_code == 200
        assert requests.get(f"{url}/api/v1/runs", headers={HEADER: "olga"}, timeout=60).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        [(HEADER, "olga"), (HEADER, "vera")],
        [(HEADER, "olga"), (HEADER, "olga")],
        [(HEADER, "olga"), (HEADER.lower(), "")],
        [(HEADER, "olga, vera")],
        [(HEADER, "olga\tvera")],
        [(HEADER, "")],
        [(HEADER.replace("-", "_"), "olga")],
        [("Forwarded", "for=127.0.0.2"), ("X-Forwarded-For", PROXY)],
        [],
    ],
)
def test_a_header_that_no_one_proxy_wrote_is_nobodys(site: str, headers: list[tuple[str, str]]) -> None:
    assert asked(site, headers).status == 401


def test_another_address_than_the_proxys_is_not_believed(site: str) -> None:
    assert asked(site, [(HEADER, "olga")]).status == 200
    for more in ([], [("X-Forwarded-For", PROXY)], [("X-Real-IP", PROXY)], [("Forwarded", f"for={PROXY}")]):
        assert asked(site, [(HEADER, "olga"), *more], source="127.0.0.1").status == 401
