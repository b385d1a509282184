from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import cast

import pytest

from lab.errors import LabTransientError
from lab.virtual import sdmux
from lab.virtual.board import BoardFolder
from lab.virtual.process import Child
from lab.virtual.qemu import cable, machine
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.sifive_u import HiFive
from lab.virtual.qemu.virt import Virt


def arguments(
    folder: Path, straps: int = 1, model: machine.QemuModel | None = None, tap_fd: int | None = None
) -> list[str]:
    board = BoardFolder(folder)
    return machine.command(Path("/usr/bin/qemu"), board, (model or Virt()).words(board, straps, tap_fd), 7, 8)


def test_each_medium_is_on_a_bus_of_its_own() -> None:
    words = arguments(Path("/b/qemu-1"))
    assert "if=none,id=sd,format=raw,file=/b/qemu-1/media/sd.img" in words
    assert "virtio-blk-device,drive=sd" in words
    assert "if=none,id=emmc,format=raw,file=/b/qemu-1/media/emmc.img" in words
    assert "nvme,drive=emmc,serial=emmc" in words
    assert "if=pflash,unit=1,format=raw,file=/b/qemu-1/media/ospi.img" in words


def test_the_strap_word_is_latched_into_ram_at_reset() -> None:
    assert "loader,addr=0x4c000000,data=0x3,data-len=4" in arguments(Path("/b/qemu-1"), straps=3)


def test_the_sd_card_of_a_bpim2u_is_there_only_with_its_strap() -> None:
    with_card, without = (arguments(Path("/b/bpi-1"), straps, BananaPi()) for straps in (1, 0))
    card = "if=sd,index=0,format=raw,file=/b/bpi-1/media/sd.img"
    assert card in with_card
    assert card not in without
    assert all("if=sd,index=2,format=raw,file=/b/bpi-1/media/emmc.img" in words for words in (with_card, without))


@pytest.mark.parametrize("straps", [6, 11])
def test_the_straps_of_a_sifive_u_are_its_pins_msel(straps: int) -> None:
    assert f"sifive_u,msel={straps}" in arguments(Path("/b/hifive-1"), straps, HiFive())


@pytest.mark.parametrize("model", [BananaPi(), HiFive()])
def test_the_network_inside_qemu_reaches_nothing_of_the_host_s(model: machine.QemuModel) -> None:
    (network,) = [word for word in arguments(Path("/b/x-1"), 1, model) if word.startswith("user,")]
    assert "restrict=on" in network
    assert network.endswith("tftp=/b/x-1/tftp")


@pytest.mark.parametrize("board", [BananaPi, HiFive])
def test_a_board_that_releases_are_put_on_reaches_the_host_s_loopback(
    board: type[BananaPi | HiFive], tmp_path: Path
) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "origin").write_text(f"{board.board_type}-network-0123456789abcdef")
    (network,) = [word for word in arguments(tmp_path, 1, board()) if word.startswith("user,")]
    assert "restrict=off" in network


@pytest.mark.parametrize(("board", "straps"), [(BananaPi, 1), (HiFive, 11)])
def test_a_card_that_the_multiplexer_has_given_to_the_host_is_not_at_the_board(
    board: type[BananaPi | HiFive], straps: int, tmp_path: Path
) -> None:
    folder = BoardFolder(tmp_path)
    card = str(folder.medium("sd"))
    assert any(card in word for word in arguments(tmp_path, straps, board()))
    folder.sdmux.mkdir()
    sdmux.host_image(folder).touch()
    assert not any(card in word for word in arguments(tmp_path, straps, board()))


def test_a_comma_in_a_path_does_not_end_it_for_qemu() -> None:
    assert "if=none,id=sd,format=raw,file=/a,,b/qemu-1/media/sd.img" in arguments(Path("/a,b/qemu-1"))


def test_a_board_has_a_network_only_where_it_has_a_cable() -> None:
    assert not any("netdev" in word for word in arguments(Path("/b/qemu-1")))
    words = arguments(Path("/b/q"), tap_fd=9)
    assert words[words.index("-netdev") + 1] == "tap,id=link,fd=9"
    assert words[words.index("tap,id=link,fd=9") + 2].startswith("e1000e,netdev=link,")


def test_packets_to_a_board_that_was_off_are_lost() -> None:
    board, tester = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child, held = socket.socketpair()
    with board, tester, child, held:
        for _ in range(3):
            tester.send(bytes(1500))
        plugged = cable.Cable(cast("Child", None), held, board.fileno())
        plugged.drain()
        tester.send(b"after")
        assert board.recv(1500) == b"after"


@pytest.mark.parametrize("model", [BananaPi(with_tools=True), HiFive(with_tools=True)], ids=["bpim2u", "sifive_u"])
def test_the_ethernet_of_a_board_is_at_its_cable_where_it_has_one(model: machine.QemuModel) -> None:
    words = arguments(Path("/b/b-1"), 1, model, tap_fd=9)
    assert any(word.startswith("tap,fd=9,model=") for word in words)
    assert not any(word.startswith("user,") for word in words)


def test_a_tester_is_entered_through_the_process_that_the_board_s_folder_names(tmp_path: Path) -> None:
    folder = BoardFolder(tmp_path / "qemu-1")
    with pytest.raises(LabTransientError, match=r"qemu-1 .*no cable.*--tools"):
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
