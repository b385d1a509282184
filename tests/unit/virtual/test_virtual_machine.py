from __future__ import annotations

from pathlib import Path

from virtual.board import BoardFolder
from virtual.qemu import machine


def arguments(folder: Path, straps: int = 1) -> list[str]:
    return machine.command(BoardFolder(folder), folder / "u-boot.bin", straps, 7, 8)


def test_each_medium_is_on_a_bus_of_its_own() -> None:
    words = arguments(Path("/b/qemu-1"))
    assert "if=none,id=sd,format=raw,file=/b/qemu-1/media/sd.img" in words
    assert "virtio-blk-device,drive=sd" in words
    assert "if=none,id=emmc,format=raw,file=/b/qemu-1/media/emmc.img" in words
    assert "nvme,drive=emmc,serial=emmc" in words
    assert "if=pflash,unit=1,format=raw,file=/b/qemu-1/media/ospi.img" in words


def test_the_strap_word_is_latched_into_ram_at_reset() -> None:
    assert "loader,addr=0x4c000000,data=0x3,data-len=4" in arguments(Path("/b/qemu-1"), straps=3)


def test_a_comma_in_a_path_does_not_end_it_for_qemu() -> None:
    assert "if=none,id=sd,format=raw,file=/a,,b/qemu-1/media/sd.img" in arguments(Path("/a,b/qemu-1"))
