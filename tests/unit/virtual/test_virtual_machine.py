from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import LabTransientError
from virtual.board import BoardFolder
from virtual.qemu import cable, machine


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


def test_a_board_has_a_network_only_where_it_has_a_cable() -> None:
    assert not any("netdev" in word for word in arguments(Path("/b/qemu-1")))
    words = machine.command(BoardFolder(Path("/b/q")), Path("/b/u-boot.bin"), 1, 7, 8, tap_fd=9)
    assert words[words.index("-netdev") + 1] == "tap,id=link,fd=9"
    assert words[words.index("tap,id=link,fd=9") + 2].startswith("e1000e,netdev=link,")


def test_a_tester_is_entered_through_the_process_that_the_board_s_folder_names(tmp_path: Path) -> None:
    folder = BoardFolder(tmp_path / "qemu-1")
    with pytest.raises(LabTransientError, match=r"qemu-1 has no cable to a tester yet.*--tools"):
        cable.enter(folder, "ip addr")
    folder.path.mkdir()
    folder.tester.write_text("4711\n")
    words = cable.enter(folder, "ip addr; true")
    assert words[words.index("--target") + 1] == "4711"
    assert words[-3:] == ["sh", "-c", "ip addr; true"]


@pytest.mark.parametrize(("tun", "reason"), [("missing", "is missing or not yours to open"), (os.devnull, "")])
def test_why_there_is_no_network_is_said_with_its_mend(
    tun: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cable, "TUN", tmp_path / tun)
    assert reason in cable.problem()
    monkeypatch.setattr(cable, "TUN", Path(os.devnull))
    monkeypatch.setattr(cable, "_NAMESPACE", ["sh", "-c", "echo unshare failed >&2; false"])
    assert "unshare failed" in cable.problem()
    assert "user.max_user_namespaces" in cable.problem()
