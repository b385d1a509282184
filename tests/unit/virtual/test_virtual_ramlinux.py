"""The root file system of a Linux in memory, from likenesses of its programs; the real ones boot in tests/integration."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.release import app
from lab.errors import ConfigurationError
from lab.provision import ramlinux
from lab.virtual.images import cache, filetree, tools
from lab.virtual.qemu.rootfs import CURSOR_QUERY
from lab.virtual.ramlinux import image


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in (*image._TOOLS, "libc.so.6", "ld-linux-aarch64.so.1"):
        (folder / name).write_bytes(name.encode())
    (folder / "busybox").write_bytes(b"\0" + CURSOR_QUERY + b"\0")
    (folder / cache.MANIFEST).write_text(json.dumps({"files": {}, "packages": {"busybox-static": "1"}, "mirror": "m"}))
    return folder


def test_it_has_its_programs_and_its_drivers_in_their_order(packages: Path) -> None:
    archive = gzip.decompress(filetree.build(image.tree(packages, {"b.ko": b"1", "a.ko": b"2"})))
    listed = subprocess.run(
        [tools.find("cpio"), "--list", "--quiet"], input=archive, capture_output=True, check=True
    ).stdout.decode()
    assert {"usr/sbin/flashcp", "lib/libc.so.6", "etc/init.d/network", "etc/udhcpc", "init"} <= set(listed.split())
    assert re.findall(rf"{image.MODULES}/(\S+)", listed) == ["00-b.ko", "01-a.ko"]


def test_its_prompt_is_the_one_that_is_waited_for(packages: Path) -> None:
    tree = image.tree(packages)
    profile, hostname = tree["etc/profile"], tree["etc/hostname"]
    assert b"root@\\h:\\w# " in profile.content  # type: ignore[union-attr]
    host = hostname.content.decode().strip()  # type: ignore[union-attr]
    assert re.fullmatch(ramlinux.PROMPT, f"root@{host}:/# ")


def test_the_scripts_are_those_of_a_shell() -> None:
    for name in ("sysinit", "network", "udhcpc"):
        subprocess.run(["sh", "-n"], input=image.data(name), check=True)


def test_the_command_leaves_a_file_and_says_what_the_release_file_gets(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "programs", lambda _root, _architecture, _report: packages)
    done = CliRunner().invoke(app, ["ram-linux", str(tmp_path / "out"), "--architecture", "armhf"])
    assert done.exit_code == 0, done.output
    made = tmp_path / "out" / "ram-linux-armhf.cpio.gz"
    assert gzip.decompress(made.read_bytes()).startswith(b"070701")
    assert "name: ram-linux-armhf.cpio.gz" in done.output


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="arm64"):
        image.programs(tmp_path, "x86", print)
