"""TLS of `lab web` is what the web-config file says."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path

import pytest
import requests
from support import certificates
from support.web_serving import serving

from lab.http.web_config import WebConfig, load
from lab.web.site import Site

TIMEOUT_S = 60


def served_with(folder: Path, config: str) -> WebConfig:
    """A web-config file with TLS."""
    certificates.make(folder, "server", "client")
    (folder / "web.yml").write_text(f"tls_server_config: {{cert_file: server.crt, key_file: server.key{config}}}\n")
    return load(folder / "web.yml")


def test_a_browser_is_told_to_come_back_over_tls_only_where_there_is_tls(tmp_path: Path) -> None:
    for config, policy in ((served_with(tmp_path, ""), "max-age=31536000"), (None, None)):
        with serving(Site(folder=tmp_path), config=config) as url:
            scheme = "http" if config is None else "https"
            address = url.replace("http", scheme) + "/static/site.css"
            answer = requests.get(address, verify=str(tmp_path / "ca.crt"), timeout=TIMEOUT_S)
            assert answer.headers.get("strict-transport-security") == policy


def asked(url: str, folder: Path, newest: ssl.TLSVersion, *, certificate: bool = False) -> tuple[int, str | None]:
    """Status and protocol as a client finds them that knows nothing newer."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.maximum_version = newest
    if certificate:
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
    connection = http.client.HTTPSConnection(url.removeprefix("http://"), context=context, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/static/site.css")
        assert isinstance(connection.sock, ssl.SSLSocket)
        version = connection.sock.version()
        return connection.getresponse().status, version
    finally:
        connection.close()


def test_a_client_with_an_older_tls_than_asked_for_is_refused(tmp_path: Path) -> None:
    with serving(Site(folder=tmp_path), config=served_with(tmp_path, ", min_version: TLS13")) as url:
        assert asked(url, tmp_path, ssl.TLSVersion.TLSv1_3) == (200, "TLSv1.3")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            asked(url, tmp_path, ssl.TLSVersion.TLSv1_2)


def test_tls_1_2_is_enough_where_the_file_asks_for_no_more(tmp_path: Path) -> None:
    with serving(Site(folder=tmp_path), config=served_with(tmp_path, "")) as url:
        assert asked(url, tmp_path, ssl.TLSVersion.TLSv1_2) == (200, "TLSv1.2")


def test_a_client_without_the_certificate_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    wanted = ", client_auth_type: RequireAndVerifyClientCert, client_ca_file: ca.crt"
    with serving(Site(folder=tmp_path), config=served_with(tmp_path, wanted)) as url:
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(url, tmp_path, ssl.TLSVersion.TLSv1_3)
        assert asked(url, tmp_path, ssl.TLSVersion.TLSv1_3, certificate=True)[0] == 200
