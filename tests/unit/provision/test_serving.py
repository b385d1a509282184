"""The server for boards: TFTP and HTTP over one folder, only reading, gone with who started it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import requests
import tftpy

from lab.errors import BoardlabError, ConfigurationError, LabStableError
from lab.provision.writers import file_server as module
from lab.provision.writers.file_server import serving


def test_a_folder_is_given_out_over_tftp_and_http(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "piece").write_bytes(data)
    (tmp_path / "secret").write_text("secret")
    with serving(folder) as served:
        client = tftpy.TftpClient("127.0.0.1", served.tftp_port, options={"blksize": 1468})
        client.download("piece", str(tmp_path / "got"))
        assert (tmp_path / "got").read_bytes() == data
        with requests.Session() as session:
            session.trust_env = False
            root = f"http://127.0.0.1:{served.http_port}"
            assert session.get(f"{root}/piece", timeout=30).content == data
            assert session.get(root, timeout=30).status_code == 404  # no list
            assert session.get(f"{root}/%2e%2e/secret", timeout=30).status_code == 404
        with pytest.raises(tftpy.TftpException):
            client.download("../secret", str(tmp_path / "stolen"))


def test_nothing_is_taken_from_a_board(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "mine").write_bytes(b"x" * 2000)
    with serving(tmp_path / "given") as served, pytest.raises(tftpy.TftpException):
        tftpy.TftpClient("127.0.0.1", served.tftp_port).upload("new", str(tmp_path / "mine"), timeout=2)
    assert list((tmp_path / "given").iterdir()) == []


def test_a_port_that_is_taken_and_an_address_that_is_not_ours_are_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        with (
            pytest.raises(LabStableError, match="another TFTP server"),
            serving(tmp_path, tftp_port=other.getsockname()[1]),
        ):
            pass
    with pytest.raises(ConfigurationError, match=r"address of this host"), serving(tmp_path, "203.0.113.7"):
        pass


def test_a_port_below_1024_that_is_not_this_users_says_what_helps() -> None:
    error: BoardlabError = module._start_error("PermissionError: [Errno 13] Permission denied", "192.168.0.1", 69)
    assert isinstance(error, ConfigurationError)
    assert "ip_unprivileged_port_start" in str(error)


def test_it_ends_with_who_started_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module.__name__, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready ")
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()
