"""The exporter's door: who may ask, and where it may listen."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import bcrypt
import pytest
import requests
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from support import certificates
from support.exporter_serving import exposition, get, serving
from support.facts import missing_facts
from support.scraped import scrape

from exporters.poller import Poller
from exporters.server import ExporterServer
from exporters.sources import FreshMetrics
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.http.web_config import WebConfig, check_address, load

PASSWORD = "correct horse"  # noqa: S105


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    certificates.make(folder, "server", "prometheus")
    secret = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    tls = "tls_server_config: {cert_file: server.crt, key_file: server.key"
    (folder / "basic.yml").write_text(f"{tls}}}\nbasic_auth_users:\n  prom: {secret}\n")
    (folder / "mutual.yml").write_text(
        f"{tls}, client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt}}\n"
    )
    return folder


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("series", [0, 3, 20_000])
def test_a_scrape_has_the_page_and_what_is_live_in_either_encoding(encoding: str, series: int) -> None:
    with serving(series=series) as url:
        answer = get(url, headers={"Accept-Encoding": encoding})
    assert answer.headers.get("Content-Encoding", "identity") == encoding
    found = scrape(answer.text)
    assert len(found.all("boardlab_number")) == series
    assert found["boardlab_live"] == 7


def test_it_listens_on_ipv6_too() -> None:
    with serving(host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert get(url).ok


def test_only_who_knows_the_password_is_answered(keys: Path) -> None:
    with serving(load(keys / "basic.yml")) as url:
        assert url.startswith("https://127.0.0.1:")
        trust = str(keys / "ca.crt")
        for auth in (None, ("prom", "wrong"), ("somebody", PASSWORD)):
            refused = get(url, verify=trust, auth=auth)
            assert refused.status_code == 401
            assert "boardlab_live" not in refused.text
        for _ in range(2):  # the second time without bcrypt
            assert "boardlab_live" in get(url, verify=trust, auth=("prom", PASSWORD)).text
        assert get(url, verify=trust, auth=("prom", "wrong")).status_code == 401


def test_only_who_has_a_certificate_is_answered(keys: Path) -> None:
    with serving(load(keys / "mutual.yml")) as url:
        trust = str(keys / "ca.crt")
        with pytest.raises(requests.ConnectionError):
            get(url, verify=trust)
        mine = (str(keys / "prometheus.crt"), str(keys / "prometheus.key"))
        assert "boardlab_live" in get(url, verify=trust, cert=mine).text


def test_a_client_that_stalls_in_the_handshake_holds_up_nobody(keys: Path) -> None:
    with serving(load(keys / "basic.yml")) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            assert get(url, verify=str(keys / "ca.crt"), auth=("prom", PASSWORD)).ok


def test_old_versions_of_tls_are_refused(keys: Path) -> None:
    context = load(keys / "basic.yml").context()
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_needs_no_protection(host: str) -> None:
    check_address(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 - it is refused
def test_other_machines_need_tls_and_authentication(keys: Path, host: str, tmp_path: Path) -> None:
    secret = bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode()
    (tmp_path / "users.yml").write_text(f"basic_auth_users: {{prom: {secret}}}\n")
    (tmp_path / "tls.yml").write_text("tls_server_config: {cert_file: a, key_file: b}\n")
    for config in (None, load(tmp_path / "users.yml"), load(tmp_path / "tls.yml")):
        with pytest.raises(ConfigurationError, match=r"needs TLS"):
            check_address(host, config)
    for name in ("basic.yml", "mutual.yml"):
        check_address(host, load(keys / name))


def test_a_name_is_no_address() -> None:
    with pytest.raises(ConfigurationError, match="expected the IP address"):
        check_address("localhost", None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tls_server_config: {cert_file: a, key_file: b, curves: X}", "extra"),
        ("tls_server_config: {cert_file: a}", "required field"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "min_version 'TLS10'"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequestClientCert}", "client_auth_type"),
        ("tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}", "need each other"),
        ("basic_auth_users: {prom: hunter2}", "not a bcrypt hash"),
        ("- a list", "not a mapping"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_web_config_is_refused_and_no_secret_is_repeated(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "web.yml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_missing_certificate_and_a_port_in_use_are_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "tls.yml").write_text("tls_server_config: {cert_file: a, key_file: b}\n")
    with pytest.raises(ConfigurationError, match="certificates"):
        ExporterServer("127.0.0.1", 0, exposition(), load(tmp_path / "tls.yml"))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(LabStableError, match="cannot listen"):
        ExporterServer("127.0.0.1", taken.getsockname()[1], exposition(), None)


def test_a_hash_is_not_shown_where_a_configuration_is() -> None:
    assert "secret" not in repr(WebConfig(basic_auth_users={"prom": "secret"}))


def test_a_source_that_fails_is_down_and_its_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[list[str] | None] = [["one"], None, None, ["two"]]

    def read() -> list[str]:
        answer = answers.pop(0)
        if answer is None:
            raise LabTransientError("the source is away")
        return answer

    poller = Poller("thing", read, 1.0, MonotonicRaw())
    assert not poller.fresh
    seen = []
    for _ in range(4):
        poller.poll()
        seen.append((poller.fresh, poller.latest))
    assert seen == [(True, ["one"]), (False, ["one"]), (False, ["one"]), (True, ["two"])]
    (message,) = (record.getMessage() for record in caplog.records)
    assert not missing_facts(message, "thing", "down", "the source is away")


class Hands:
    name = "hands"

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


def test_a_source_that_hangs_is_down_after_a_while() -> None:
    clock, registry = Hands(), CollectorRegistry()
    poller: Poller[list[Metric]] = Poller("thing", lambda: [GaugeMetricFamily("number", "", 1)], 30.0, clock)
    FreshMetrics(registry, [poller])
    poller.poll()
    clock.ns = 89 * 10**9
    assert poller.fresh
    assert [metric.name for metric in registry.collect()] == ["number"]
    clock.ns = 91 * 10**9
    assert not poller.fresh
    assert not list(registry.collect())
