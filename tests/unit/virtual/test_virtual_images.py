"""Images from tiny inputs, with the real tools."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.virtual.images import EPOCH, debian, disk, filetree, tools, uboot
from lab.virtual.images.filetree import Directory, RegularFile, Symlink, Tree
from lab.virtual.qemu import recipe

TREE: Tree = {
    "init": Symlink("bin/busybox"),
    "bin/busybox": RegularFile(b"\x7fELF not really", 0o755),
    "etc/medium": RegularFile(b"sd\n"),
    "proc": Directory(0o555),
}


def disk_image(path: Path, tree: Tree = TREE, identity: int = 1) -> bytes:
    disk.build(path, tree, size_mib=8, identity=identity)
    return path.read_bytes()


def test_an_initramfs_has_the_same_bytes_every_time() -> None:
    first = filetree.build(TREE)
    before = os.umask(0o077)
    try:
        assert filetree.build(dict(reversed(TREE.items()))) == first
    finally:
        os.umask(before)


def test_an_initramfs_holds_the_tree_and_belongs_to_root() -> None:
    listing = subprocess.run(
        [tools.find("cpio"), "--list", "--verbose", "--numeric-uid-gid", "--quiet"],
        input=gzip.decompress(filetree.build(TREE)),
        capture_output=True,
        check=True,
    ).stdout.decode()
    lines = {line.split()[8]: line.split() for line in listing.splitlines()}
    assert set(lines) == {".", "bin", "bin/busybox", "etc", "etc/medium", "init", "proc"}
    assert {(line[2], line[3]) for line in lines.values()} == {("0", "0")}
    assert lines["bin/busybox"][0] == "-rwxr-xr-x"
    assert lines["etc/medium"][0] == "-rw-r--r--"
    assert lines["proc"][0] == "dr-xr-xr-x"
    assert lines["init"][8:] == ["init", "->", "bin/busybox"]


def test_a_disk_has_the_same_bytes_every_time(tmp_path: Path) -> None:
    first = disk_image(tmp_path / "a.img")
    before = os.umask(0o077)
    try:
        assert disk_image(tmp_path / "b.img") == first
    finally:
        os.umask(before)


def test_a_disk_has_one_bootable_linux_partition_with_the_tree(tmp_path: Path) -> None:
    disk_image(tmp_path / "sd.img")
    table = tools.run(["sfdisk", "--dump", tmp_path / "sd.img"]).decode()
    assert "start=        2048" in table
    assert "type=83, bootable" in table
    partition = f"{tmp_path / 'sd.img'}?offset=1048576"
    assert tools.run(["debugfs", "-R", "cat /etc/medium", partition]) == b"sd\n"
    status = tools.run(["debugfs", "-R", "stat /bin/busybox", partition]).decode()
    assert "User:     0   Group:     0" in status
    assert "Mode:  0755" in status
    assert f"{EPOCH:#010x}" in status


def test_the_file_system_of_a_disk_is_sound(tmp_path: Path) -> None:
    image = disk_image(tmp_path / "sd.img")
    (tmp_path / "part.img").write_bytes(image[1 << 20 :])
    tools.run(["e2fsck", "-fn", tmp_path / "part.img"])


def test_two_disks_of_a_board_have_different_identifiers(tmp_path: Path) -> None:
    disk_image(tmp_path / "sd.img", identity=1)
    disk_image(tmp_path / "emmc.img", identity=2)
    dumps = [tools.run(["sfdisk", "--dump", tmp_path / name]).decode() for name in ("sd.img", "emmc.img")]
    labels = [line for dump in dumps for line in dump.splitlines() if line.startswith("label-id")]
    assert len(set(labels)) == 2


def test_further_partitions_hold_an_image_or_nothing(tmp_path: Path) -> None:
    usr = tmp_path / "usr.img"
    folder = tmp_path / "usr"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "fio").write_bytes(b"fio" * 1000)
    disk.file_system(usr, folder)
    tools.run(["e2fsck", "-fn", usr])
    disk.build(tmp_path / "sd.img", TREE, size_mib=8, identity=1, more=[usr, 64])
    dump = tools.run(["sfdisk", "--dump", tmp_path / "sd.img"]).decode()
    starts = [int(found) for found in re.findall(r"start=\s*(\d+)", dump)]
    sizes = [int(found) for found in re.findall(r"size=\s*(\d+)", dump)]
    assert starts == [2048, 8 * 2048, 8 * 2048 + sizes[1]]
    assert (sizes[0], sizes[2]) == (7 * 2048, 64 * 2048)
    assert dump.count("bootable") == 1
    at = f"{tmp_path / 'sd.img'}?offset={starts[1] * 512}"
    assert tools.run(["debugfs", "-R", "cat /bin/fio", at]) == b"fio" * 1000
    assert tools.run(["debugfs", "-R", "cat /etc/medium", f"{tmp_path / 'sd.img'}?offset=1048576"]) == b"sd\n"
    assert (tmp_path / "sd.img").stat().st_blocks * 512 < 32 << 20  # the empty one takes no room


def test_a_tree_that_does_not_fit_is_an_error_with_the_tools_reason(tmp_path: Path) -> None:
    big: Tree = {"big": RegularFile(os.urandom(9 << 20))}
    with pytest.raises(LabStableError, match="mke2fs failed"):
        disk_image(tmp_path / "sd.img", big)


def test_an_environment_is_stored_as_u_boot_reads_it() -> None:
    image = uboot.environment_image({"b": "2", "a": "one"}, 256)
    assert len(image) == 256
    assert image[4:].startswith(b"a=one\0b=2\0\0")
    assert int.from_bytes(image[:4], "little") == zlib.crc32(image[4:])


def test_indented_lines_continue_a_variable_and_placeholders_are_filled() -> None:
    text = "# comment\nbootcmd=first;\n  second @place@;\n\tthird\nbootdelay=1\n"
    assert uboot.environment(text, {"place": "0x40"}) == {"bootcmd": "first; second 0x40; third", "bootdelay": "1"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bootcmd", "line 1: expected name=value"),
        ("  bootcmd=x", "line 1: expected name=value before"),
        ("a=1\na=2", "line 2: a is set twice"),
        ("a=@nothing@", "line 1: no value for @nothing@"),
    ],
)
def test_a_wrong_environment_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        uboot.environment(text)


@given(offset=st.integers(0, 100), length=st.integers(1, 100))
def test_parts_of_a_flash_land_at_their_offsets_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, offset: int, length: int
) -> None:
    path = tmp_path_factory.mktemp("flash") / "ospi.img"
    parts = {0: b"E" * 50, offset: b"K" * length} if offset else {0: b"K" * length}
    if (offset and offset < 50) or offset + length > 128:
        with pytest.raises(ConfigurationError):
            uboot.build_flash(path, parts, size_bytes=128)
    else:
        uboot.build_flash(path, parts, size_bytes=128)
        image = path.read_bytes()
        assert len(image) == 128
        assert image[offset : offset + length] == b"K" * length
        assert image[max(offset + length, 50) :].strip(b"\0") == b""


def test_the_boot_command_reads_the_straps_and_says_the_medium_in_one_line() -> None:
    variables = recipe.environment(kernel_offset=0x80000, kernel_bytes=0x100, initrd_offset=0x90000, initrd_bytes=0x20)
    for word, medium in ((1, "sd"), (2, "emmc"), (3, "ospi")):
        assert f"if itest.l *{recipe.STRAP_WORD:#x} == {word}; then setenv bm {medium}; fi" in variables["bootcmd"]
        assert f"boot_{medium}" in variables
    assert 'echo "Boot mode pins: ${bm} "' in variables["bootcmd"]
    assert "bootmedia=${bm}" in variables["boot_go"]
    assert "cp.b 0x4080000 ${kernel_addr_r} 0x100" in variables["boot_ospi"]
    assert "cp.b 0x4090000 ${ramdisk_addr_r} 0x20" in variables["boot_ospi"]


def test_each_medium_carries_its_own_name() -> None:
    names = {medium: recipe.root_file_system(b"", b"", medium)["etc/medium"] for medium in ("sd", "emmc", "ospi")}
    assert names == {medium: RegularFile(f"{medium}\n".encode()) for medium in names}


def test_a_missing_tool_is_named_with_its_package() -> None:
    with pytest.raises(ConfigurationError, match=r"no-such-tool.*install it"):
        tools.find("no-such-tool")


def test_all_missing_tools_are_named_at_once_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    tools.require(["sh", "dd"])
    monkeypatch.setattr(tools, "_PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match=r"apt-get install bison do"):
        tools.require(["bison", "mkfs.vfat"])


def toy(folder: Path, files: dict[str, bytes]) -> debian.Package:
    """A package of these files."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: toy\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: toy\n"
    )
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    tools.run(["dpkg-deb", "--build", "--root-owner-group", tree, folder / "toy.deb"])
    return debian.Package("toy", "1", folder / "toy.deb")


def test_a_package_is_unpacked_into_a_merged_usr(tmp_path: Path) -> None:
    package = toy(tmp_path, {"lib/libtoy.so": b"library", "usr/bin/toy": b"program"})
    stage = tmp_path / "stage"
    (stage / "usr" / "lib").mkdir(parents=True)
    (stage / "lib").symlink_to("usr/lib")
    debian.unpack(package, stage)
    assert (stage / "lib").is_symlink()
    assert (stage / "usr" / "lib" / "libtoy.so").read_bytes() == b"library"
    assert (stage / "usr" / "bin" / "toy").read_bytes() == b"program"


def test_a_file_is_taken_out_of_a_package_and_a_missing_one_is_named(tmp_path: Path) -> None:
    package = toy(tmp_path, {"boot/vmlinuz-6.1": b"kernel"})
    debian.extract(package, {"boot/vmlinuz-.*": tmp_path / "Image"})
    assert (tmp_path / "Image").read_bytes() == b"kernel"
    with pytest.raises(LabTransientError, match=r"has no file etc/none"):
        debian.extract(package, {"etc/none": tmp_path / "none"})


PATCH = """\
--- a/configs/{name}
+++ b/configs/{name}
@@ -1 +1 @@
-{old}
+{new}
"""


def source_package(folder: Path, *patches: str) -> Path:
    """The archives of a source package: upstream's, and the distribution's patches."""
    upstream, distribution = folder / "u-boot-1" / "configs", folder / "debian" / "patches"
    for made in (upstream, distribution):
        made.mkdir(parents=True)
    (upstream / "evm").write_text("CONFIG_A=y\n")
    for number, patch in enumerate(patches):
        (distribution / f"{number}.patch").write_text(patch)
    names = "".join(f"{number}.patch -p1 # of ours\n" for number in range(len(patches)))
    (distribution / "series").write_text(f"# in this order\n{names}\n")
    tools.run(
        ["tar", "--create", "--gzip", f"--file={folder / 'u-boot_1.orig.tar.gz'}", f"--directory={folder}", "u-boot-1"]
    )
    tools.run(
        [
            "tar",
            "--create",
            "--gzip",
            f"--file={folder / 'u-boot_1-2.debian.tar.gz'}",
            f"--directory={folder}",
            "debian",
        ]
    )
    return folder / "u-boot_1.orig.tar.gz"


def unpacked(folder: Path, *patches: str) -> Path:
    target = folder / "unpacked"
    target.mkdir()
    (folder / "package").mkdir()
    tools.run(["git", "init", "--quiet", folder])  # as in a checkout of ours, whose files these are not
    uboot.unpack_patched(source_package(folder / "package", *patches), target)
    return target


def test_sources_have_the_distributions_patches_in_their_order(tmp_path: Path) -> None:
    first = PATCH.format(name="evm", old="CONFIG_A=y", new="CONFIG_B=y")
    second = PATCH.format(name="evm", old="CONFIG_B=y", new="CONFIG_C=y")
    assert (unpacked(tmp_path, first, second) / "configs" / "evm").read_text() == "CONFIG_C=y\n"


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabStableError, match="patch does not apply"):
        unpacked(tmp_path, PATCH.format(name="evm", old="CONFIG_X=y", new="CONFIG_Y=y"))
