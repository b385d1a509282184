"""The media of a simulated board: their bytes, what U-Boot's commands do with them, and what the board boots from them."""

from __future__ import annotations

import binascii
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simlab import S, SimLab

from lab.virtual.sim import firmware
from lab.virtual.sim.firmware import STAGES
from lab.virtual.sim.network import Fetch, FolderTftp, LoopbackTftp
from lab.virtual.sim.storage import PAGE_BYTES, Space

PROMPT = "=> "
TYPE = "am62xx_sk"
OLD, NEW = "10.00", "11.01"
OFFSETS = {"tiboot3.bin": 0x0, "tispl.bin": 0x80000, "u-boot.img": 0x280000}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def served(**more: bytes) -> dict[str, bytes]:
    """What a TFTP server has: the boot parts of a release."""
    return {part: firmware.make(part, TYPE, OLD, 9000) for part in STAGES} | more


def stopped(files: dict[str, bytes] | None = None, medium: str = "sd") -> SimLab:
    lab = SimLab(TYPE, release=NEW, time_scale=0.05)
    folder = Path("tftp").absolute()
    folder.mkdir(exist_ok=True)
    for name, data in (served() if files is None else files).items():
        (folder / name).write_bytes(data)
    lab.board.network = FolderTftp(folder)
    lab.on(medium)
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    lab.command("setenv serverip 192.0.2.1", PROMPT)
    return lab


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "fill", "copy", "program"]),
            st.integers(0, 3 * PAGE_BYTES),
            st.integers(0, 3 * PAGE_BYTES),
            st.integers(0, 2 * PAGE_BYTES),
        ),
        max_size=6,
    )
)
def test_a_space_is_as_an_array_of_bytes(steps: list[tuple[str, int, int, int]]) -> None:
    space, other = Space("x", 0xFF), Space("other")
    model, theirs = bytearray(b"\xff" * 6 * PAGE_BYTES), other.read(0, 6 * PAGE_BYTES)
    for what, offset, start, size in steps:
        new = theirs[start : start + size]
        if what == "fill":
            space.fill(offset, size, 7)
            new = b"\x07" * size
        elif what == "write":
            space.write(offset, new)
        elif what == "copy":
            space.copy(offset, other, start, size)
        else:
            space.program(offset, other, start, size)
            new = bytes(a & b for a, b in zip(model[offset : offset + size], new, strict=True))
        model[offset : offset + size] = new
    assert space.read(0, len(model)) == bytes(model)


def test_a_digest_sees_a_byte_and_not_what_is_left_out() -> None:
    one, two = Space("x"), Space("x")
    one.write(5 * PAGE_BYTES, b"a")
    assert one.digest() != two.digest() == Space("x").digest()
    assert one.digest([(5 * PAGE_BYTES, 1)]) == two.digest()


def test_u_boot_says_the_checksum_and_the_digest_of_what_came_by_tftp() -> None:
    lab, data = stopped(), served()["tispl.bin"]
    said = lab.command("tftpboot 82000000 tispl.bin", PROMPT)
    assert f"Bytes transferred = {len(data)} ({len(data):x} hex)" in said
    assert f"==> {binascii.crc32(data):08x}" in lab.command("crc32 82000000 ${filesize}", PROMPT)
    assert f"==> {hashlib.sha256(data).hexdigest()}" in lab.command("hash sha256 82000000 ${filesize}", PROMPT)


def test_a_file_that_the_server_lacks_and_a_server_that_nobody_named_are_said() -> None:
    lab = stopped()
    assert "TFTP error: 'File not found' (1)" in lab.command("tftpboot 82000000 nothing", PROMPT)
    lab.command("setenv serverip", PROMPT)
    assert "`serverip' not set" in lab.command("tftpboot 82000000 tispl.bin", PROMPT)


def test_without_a_network_it_times_out_and_ctrl_c_ends_it() -> None:
    lab = SimLab(time_scale=0.05)
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    lab.command("setenv serverip 192.0.2.1", PROMPT)
    assert lab.command("tftpboot 82000000 x", PROMPT).count("T ") == 10
    lab.type("tftpboot 82000000 x\r")
    lab.run_until("T ")
    assert "Retry count" not in lab.command("\x03", PROMPT)


def put_on_flash(lab: SimLab) -> None:
    lab.command("sf probe", PROMPT)
    for part, offset in OFFSETS.items():
        lab.command(f"tftpboot 82000000 {part}", PROMPT)
        said = lab.command(f"sf update 82000000 {offset:x} ${{filesize}}", PROMPT)
        assert "bytes written, 0 bytes skipped" in said


def put_on_emmc(lab: SimLab, partition: int) -> None:
    lab.command(f"mmc dev 0 {partition}", PROMPT)
    for part, block in {"tiboot3.bin": 0, "tispl.bin": 0x400, "u-boot.img": 0x1400}.items():
        lab.command(f"tftpboot 82000000 {part}", PROMPT)
        assert "20 blocks written: OK" in lab.command(f"mmc write 82000000 {block:x} 14", PROMPT)
    lab.command(f"mmc partconf 0 1 {partition} 1", PROMPT)


def boots(lab: SimLab, medium: str) -> str:
    """The first lines of a boot; all until U-Boot's countdown."""
    lab.off()
    lab.run_for(5 * S)
    start = len(lab.said())
    lab.on(medium)
    lab.run_until("stop autoboot:")
    return lab.said()[start:]


@pytest.mark.parametrize("medium", ["ospi", "emmc"])
def test_a_board_boots_what_was_written(medium: str) -> None:
    lab = stopped()
    if medium == "ospi":
        put_on_flash(lab)
    else:
        put_on_emmc(lab, 1)
    assert "U-Boot 2024.04" in boots(lab, medium)
    assert "U-Boot 2025.01" in boots(lab, "sd"), "another medium has what it had"


def test_an_emmc_boots_from_the_partition_that_its_register_names() -> None:
    lab = stopped()
    put_on_emmc(lab, 2)
    assert "BOOT_PARTITION_ENABLE: 0x2" in lab.command("mmc partconf 0", PROMPT)
    assert "U-Boot 2024.04" in boots(lab, "emmc")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    lab.command("mmc partconf 0 1 1 0", PROMPT)
    assert "U-Boot 2025.01" in boots(lab, "emmc"), "the first boot partition has what it had"


@pytest.mark.parametrize("part", STAGES)
def test_a_part_that_is_not_whole_boots_no_further(part: str) -> None:
    lab = stopped()
    put_on_flash(lab)
    lab.board.storage.medium("ospi").space().write(OFFSETS[part] + 600, b"????")
    lab.off()
    lab.run_for(5 * S)
    lab.on("ospi")
    lab.run_for(20 * S)
    assert "stop autoboot" not in lab.said().rpartition(PROMPT)[2]


def test_power_that_goes_in_the_middle_leaves_a_part_of_it() -> None:
    lab = stopped({"image": bytes(range(256)) * 40_000})
    lab.command("tftpboot 82000000 image", PROMPT)
    lab.type("mmc dev 0; mmc write 82000000 10000 4e20\r")
    lab.run_until("count 20000 ... ")
    medium = lab.board.storage.medium("emmc")
    while not medium.space().touched(0x10000 * 512, 512):
        lab.run_for(100_000)
    lab.off()
    lab.run_for(5 * S)
    assert not medium.space().touched((0x10000 + 20_000) * 512 - 512, 512)


def test_flash_keeps_the_bits_that_were_not_erased() -> None:
    lab = stopped({"a": b"\x0f" * 4096, "b": b"\xf0" * 4096})
    lab.command("sf probe; sf erase 1000000 40000", PROMPT)
    for name in ("a", "b"):
        lab.command(f"tftpboot 82000000 {name}; sf write 82000000 1000000 1000", PROMPT)
    assert lab.board.storage.medium("ospi").space().read(0x1000000, 4096) == bytes(4096)


def test_a_partition_of_the_flash_goes_by_its_name() -> None:
    lab = stopped()
    assert '"ospi.tispl"' in lab.command("mtd list", PROMPT)
    lab.command(
        "tftpboot 82000000 tispl.bin; mtd erase ospi.tispl; mtd write ospi.tispl 82000000 0 ${filesize}", PROMPT
    )
    data = served()["tispl.bin"]
    assert lab.board.storage.medium("ospi").space().read(0x80000, len(data)) == data
    assert "MTD device ospi.x not found" in lab.command("mtd erase ospi.x", PROMPT)


def test_what_cannot_be_undone_is_noted() -> None:
    lab = stopped()
    lab.command("mmc rst-function 0 1; fuse prog -y 0 0 1", PROMPT)
    assert lab.board.storage.burned == ["mmc rst-function 1", "fuse prog -y 0 0 1"]


def test_fastboot_takes_a_file_and_runs_commands() -> None:
    lab, data = stopped(), b"x" * 1000
    usb = lab.board.usb
    lab.type("fastboot usb 0\r")
    lab.run_for(S)
    for packet in (
        b"getvar:max-download-size",
        f"download:{len(data):08x}".encode(),
        data,
        b"oem run:mmc dev 0 1",
        b"flash:x",
    ):
        usb.bulk(packet)
    lab.run_for(S)
    assert list(usb.answers) == [b"OKAY0x4000000", b"DATA000003e8", b"OKAY", b"OKAY", b"FAILunrecognized command"]
    assert lab.command("\x03", PROMPT) == ""
    assert f"==> {binascii.crc32(data):08x}" in lab.command("crc32 82000000 3e8", PROMPT)


def fastboot(lab: SimLab, *packets: bytes) -> list[bytes]:
    for packet in packets:
        lab.board.usb.bulk(packet)
    lab.run_for(S)
    return list(lab.board.usb.answers)


def test_fastboot_answers_what_it_cannot_take_and_names_the_board_that_it_is() -> None:
    lab = stopped()
    lab.type("fastboot usb 0\r")
    lab.run_for(S)
    assert fastboot(lab, b"getvar:product") == [b"FAILValue not set"]
    lab.command("\x03", PROMPT)
    lab.board.usb.answers.clear()
    lab.type("setenv board am62x; fastboot -l 90000000 -s 100 usb 0\r")
    lab.run_for(S)
    said = fastboot(lab, b"download:xyz", b"download:0", b"download:101", b"getvar:product", b"download:2", b"ab")
    size = b"FAILExpected nonzero image size"
    assert said == [size, size, b"FAILdata too large", b"OKAYam62x", b"DATA00000002", b"OKAY"]
    assert lab.command("\x03", PROMPT) == ""
    assert f"==> {binascii.crc32(b'ab'):08x}" in lab.command("crc32 90000000 2", PROMPT)


def test_ctrl_c_ends_a_download_that_does_not_come() -> None:
    lab = stopped()
    lab.type("fastboot usb 0\r")
    lab.run_for(S)
    assert fastboot(lab, b"download:10", b"half")[-1] == b"DATA00000010"
    assert lab.command("\x03", PROMPT) == ""
    assert not lab.board.usb.fastboot


@pytest.mark.parametrize(
    ("words", "came"),
    [
        ("dhcp 82000000", "Filename 'C0A80102.img'."),
        ("setenv bootfile tispl.bin; dhcp 82000000", "Bytes transferred = 9"),
        ("dhcp tispl.bin", "Bytes transferred = 9"),
        ("dhcp 82000000 tispl.bin", "Bytes transferred = 9"),
        ("dhcp here tispl.bin", ""),
        ("setenv autoload no; dhcp", "DHCP client bound"),
    ],
)
def test_dhcp_takes_an_address_a_file_or_both(words: str, came: str) -> None:
    lab = stopped()
    lab.command("setenv loadaddr 82000000", PROMPT)
    said = lab.command(words, PROMPT)
    assert came in said
    assert ("DHCP client bound" in said) == bool(came)


@pytest.mark.parametrize(("given", "port"), [("6969", 6969), ("x", 0), ("70000", 70000 & 0xFFFF), ("69x", 69)])
def test_a_port_of_tftp_is_the_digits_that_it_begins_with(given: str, port: int) -> None:
    lab, asked = stopped(), list[int]()

    class Asked:
        def fetch(self, _server: str, port: int, _path: str) -> Fetch:
            asked.append(port)
            return Fetch(error="File not found")

    lab.board.network = Asked()
    lab.off()
    lab.on()
    lab.run_until("stop autoboot:")
    lab.type(" ")
    lab.run_until(f"\n{PROMPT}")
    lab.command("setenv serverip 192.0.2.1", PROMPT)
    lab.command(f"setenv tftpdstp {given}; tftpboot 82000000 x", PROMPT)
    assert asked == [port]


@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "/../outside", "link", "a", "nothing"])
def test_a_folder_gives_nothing_that_is_not_in_it(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "served"
    (folder / "a").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "inside").write_bytes(b"public")
    assert FolderTftp(folder).fetch("192.0.2.1", 69, "/inside").data == b"public"
    fetch = FolderTftp(folder).fetch("192.0.2.1", 69, path)
    assert (fetch.data, fetch.error) == (None, "File not found")


def test_a_server_at_no_port_never_answers() -> None:
    fetch = Fetch()
    LoopbackTftp()._get(fetch, 0, "x")
    assert not fetch.done
