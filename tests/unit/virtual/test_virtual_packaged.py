"""A board's packages come from a mirror of Debian, also on a day on which its index cannot be used."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from support.facts import missing_facts

from lab.errors import LabTransientError
from lab.virtual.images import cache, debian
from lab.virtual.qemu import debian_board
from lab.virtual.qemu.debian_board import FILE_SYSTEMS, Software

FILES = {
    "u-boot-board": {"usr/lib/u-boot/board/u-boot.bin": "the boot loader"},
    "linux-image-6.12-riscv64": {
        "boot/vmlinux-6.12": "the kernel",
        "usr/lib/linux-image-6.12/board.dtb": "the device tree",
        **{f"lib/modules/6.12/kernel/{name}.ko": name for name in FILE_SYSTEMS},
    },
    "busybox-static": {"bin/busybox": "busybox"},
}
SOFTWARE = Software(
    board_type="board",
    suite="trixie",
    architecture="riscv64",
    uboot="u-boot-board",
    loaders={"usr/lib/u-boot/board/u-boot.bin": "u-boot.bin"},
    kernel="linux-image-riscv64",
    image="boot/vmlinux-.*",
    device_tree="usr/lib/linux-image-.*/board.dtb",
    console="ttyS0",
    modules=(),
    network=(),
    triplet="riscv64-linux-gnu",
    loader="ld-linux-riscv64-lp64d.so.1",
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Writes no log."""

    def log_message(self, *_words: object) -> None:
        """See above."""


def package(folder: Path, name: str) -> debian.PinnedPackage:
    """Make a package in the mirror's pool."""
    tree = folder / name
    control = f"Package: {name}\nVersion: 1.0-1\nArchitecture: riscv64\nMaintainer: nobody\nDescription: a test\n"
    for path, text in {**FILES[name], "DEBIAN/control": control}.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    deb = folder / "mirror" / "pool" / f"{name}_1.0-1_riscv64.deb"
    deb.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, deb], check=True, capture_output=True)
    return debian.PinnedPackage(f"pool/{deb.name}", hashlib.sha256(deb.read_bytes()).hexdigest())


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[debian.PinnedPackage, ...]]:
    """The packages of a mirror that has no index."""
    packages = tuple(package(tmp_path, name) for name in FILES)
    handler = functools.partial(Quiet, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        mirror = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(debian, "_mirror", lambda _suite: mirror)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        try:
            yield packages
        finally:
            server.shutdown()
            thread.join()


def test_known_versions_are_taken_where_the_index_cannot_be_used(
    tmp_path: Path, known: tuple[debian.PinnedPackage, ...]
) -> None:
    said: list[str] = []
    folder = attrs.evolve(SOFTWARE, known=known).obtain(tmp_path / "cache", said.append)
    assert (folder / "u-boot.bin").read_text() == "the boot loader"
    assert (folder / debian_board.KERNEL).read_text() == "the kernel"
    assert json.loads((folder / cache.MANIFEST).read_text())["packages"] == dict.fromkeys(FILES, "1.0-1")
    assert not missing_facts(said[-1], "known versions", "u-boot-board_1.0-1", "linux-image-6.12", "1.0-1")


def test_a_known_package_with_other_bytes_is_refused(tmp_path: Path, known: tuple[debian.PinnedPackage, ...]) -> None:
    others = (attrs.evolve(known[0], sha256="0" * 64), *known[1:])
    with pytest.raises(LabTransientError, match=r"Debian.*Download Failed"):
        attrs.evolve(SOFTWARE, known=others).obtain(tmp_path / "cache", str)


@pytest.mark.usefixtures("known")
def test_without_known_versions_the_index_is_needed(tmp_path: Path) -> None:
    with pytest.raises(LabTransientError, match=r"Debian.*the network"):
        SOFTWARE.obtain(tmp_path / "cache", str)


def test_an_index_that_was_not_signed_is_called_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def apt(*_words: object, **_options: object) -> bytes:
        raise LabTransientError("Release file created at: Sat, 21 Nov 2026 09:15:44 +0000; E: Some index files failed")

    monkeypatch.setattr(debian.tools, "run", apt)
    with pytest.raises(LabTransientError, match=r"two versions.*again"):
        debian.AptRoot(tmp_path, "trixie", "riscv64").update()
