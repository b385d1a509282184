"""The folder of the server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lab.console.operations import default_name
from lab.console.runtime import prepare, runtime_dir, socket_path
from lab.errors import ConfigurationError


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
