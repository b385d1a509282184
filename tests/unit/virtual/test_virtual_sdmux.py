"""The SD multiplexer of a virtual board: the card is in one place, and is not moved while somebody uses it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from lab.errors import ConfigurationError, LabStableError
from lab.virtual import sdmux
from lab.virtual.board import BoardFolder
from lab.virtual.qemu.bpim2u import BananaPi
from lab.virtual.qemu.machine import QemuModel
from lab.virtual.qemu.sifive_u import HiFive
from lab.virtual.qemu.virt import Virt


@pytest.fixture
def folder(tmp_path: Path) -> BoardFolder:
    found = BoardFolder(tmp_path / "b1")
    found.media.mkdir(parents=True)
    found.medium("sd").write_bytes(b"card")
    return found


def test_the_card_is_in_one_place(folder: BoardFolder) -> None:
    assert sdmux.position(folder) == "dut"
    sdmux.switch(folder, "host", is_on=False)
    assert sdmux.position(folder) == "host"
    assert sdmux.host_image(folder).read_bytes() == b"card"
    assert not folder.medium("sd").exists()
    sdmux.switch(folder, "dut", is_on=False)
    assert not sdmux.host_image(folder).exists()
    sdmux.switch(folder, "off", is_on=False)
    assert not folder.medium("sd").exists()
    assert not sdmux.host_image(folder).exists()


def test_the_card_of_a_board_that_is_on_stays(folder: BoardFolder) -> None:
    with pytest.raises(LabStableError, match="is on"):
        sdmux.switch(folder, "host", is_on=True)
    assert sdmux.position(folder) == "dut"


def test_a_card_that_somebody_writes_stays(folder: BoardFolder) -> None:
    sdmux.switch(folder, "host", is_on=False)
    with sdmux.host_image(folder).open("r+b"), pytest.raises(LabStableError, match="open"):
        sdmux.switch(folder, "dut", is_on=False)
    sdmux.switch(folder, "dut", is_on=False)


def test_no_place_and_no_card_are_told(folder: BoardFolder) -> None:
    with pytest.raises(ConfigurationError, match="dut, host, off"):
        sdmux.switch(folder, "pc", is_on=False)
    folder.medium("sd").unlink()
    with pytest.raises(ConfigurationError, match="0 cards"):
        sdmux.position(folder)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES])
def test_a_card_that_perhaps_somebody_writes_stays(
    number: int, folder: BoardFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(LabStableError, match=rf"cannot be told \({os.strerror(number)}\).*leases") as caught:
        sdmux.switch(folder, "host", is_on=False)
    assert caught.value.failure == "multiplexer_failed"
    assert sdmux.position(folder) == "dut"


def test_a_card_that_cannot_be_moved_stays(folder: BoardFolder) -> None:
    folder.sdmux.write_text("a file in its way")
    with pytest.raises(LabStableError, match="cannot be moved") as caught:
        sdmux.switch(folder, "host", is_on=False)
    assert any(reason in str(caught.value) for reason in ("File exists", "Not a directory"))
    assert folder.medium("sd").exists()


@pytest.mark.parametrize(
    ("model", "straps"), [(Virt(), 1), (BananaPi(), 1), (HiFive(), 11)], ids=lambda value: type(value).__name__
)
def test_a_board_starts_without_the_card_that_is_at_the_host(
    folder: BoardFolder, model: QemuModel, straps: int
) -> None:
    card = str(folder.medium("sd"))
    assert any(card in word for word in model.words(folder, straps, None))
    sdmux.switch(folder, "host", is_on=False)
    assert not any(card in word for word in model.words(folder, straps, None))
    sdmux.switch(folder, "dut", is_on=False)
    assert any(card in word for word in model.words(folder, straps, None))
