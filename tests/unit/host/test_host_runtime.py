"""The folder of the server."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli import main
from lab.console import ConsoleClient, transport
from lab.console.port import default_name
from lab.errors import ConfigurationError
from lab.host.runtime import prepare, runtime_dir, socket_path


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"BOARDLAB_RUNTIME": "/own", "XDG_RUNTIME_DIR": "/run/user/5"}, "/own"),
        ({"XDG_RUNTIME_DIR": "/run/user/5"}, "/run/user/5/boardlab"),
    ],
)
def test_the_folder_is_the_user_s_own_or_the_session_s(environ: dict[str, str], expected: str) -> None:
    assert runtime_dir(environ) == Path(expected)


def test_without_a_session_the_folder_is_named_after_the_user() -> None:
    assert runtime_dir({}).name.startswith("boardlab-")


def test_the_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "recordings").is_dir()
    assert prepare(folder) == folder


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(ConfigurationError, match=r"mode 755.*chmod 700"):
        prepare(tmp_path / "open")


def test_a_link_or_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigurationError, match="set BOARDLAB_RUNTIME"):
        prepare(tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="set BOARDLAB_RUNTIME"):
        prepare(tmp_path / "file")


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="107 bytes"):
        prepare(tmp_path / ("x" * 120))
    assert socket_path(tmp_path) == tmp_path / "console.sock"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("/dev/ttyUSB0", "ttyUSB0"),
        (
            "/dev/serial/by-path/pci-0000:00:14.0-usb-0:2:1.0-port0",
            "serial-by-path-pci-0000-00-14.0-usb-0-2-1.0-port0",
        ),
        ("/home/me/.lab/virtual/qemu-1/uart0", "qemu-1-uart0-"),
    ],
)
def test_a_port_is_named_after_its_device(device: str, name: str) -> None:
    assert default_name(Path(device)).startswith(name)


def test_two_devices_outside_dev_have_two_names() -> None:
    assert default_name(Path("/a/qemu-1/uart0")) != default_name(Path("/b/qemu-1/uart0"))


def listening(folder: Path) -> socket.socket:
    """Somebody else's server in a folder."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(socket_path(folder)))
    server.listen()
    server.setblocking(False)
    return server


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="rt-") as folder:
        yield Path(folder)


WORDS = [["list"], ["stop"], ["tail", "uart0"], ["attach", "/dev/ttyUSB0"]]


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_no_command_connects_in_a_folder_that_others_may_enter(
    short: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    short.chmod(0o770)
    with listening(short) as server:
        assert main(["console", *words, "--runtime", str(short)]) == 2
        assert not missing_facts(capsys.readouterr().err, "others", "mode 770")
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_no_command_connects_in_another_user_s_folder(
    short: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(short) as server:
        monkeypatch.setattr(os, "getuid", lambda: 4711)
        assert main(["console", *words, "--runtime", str(short)]) == 2
        assert not missing_facts(capsys.readouterr().err, "4711", "BOARDLAB_RUNTIME")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_no_command_follows_a_link_to_a_folder(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (short / "real").mkdir(mode=0o700)
    (short / "link").symlink_to(short / "real")
    with listening(short / "real"):
        assert main(["console", "list", "--runtime", str(short / "link")]) == 2
    assert "not a folder" in capsys.readouterr().err


def test_who_listens_is_asked_for_too_since_a_folder_may_be_exchanged(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(short):
        monkeypatch.setattr(transport, "check_owner", lambda _folder: monkeypatch.setattr(os, "getuid", lambda: 4711))
        with pytest.raises(ConfigurationError, match=r"user \d+ .*you are 4711"):
            ConsoleClient(socket_path(short))
