"""Snagboot's own `snagrecover`, as `lab provision --from-nothing usb` calls it, with a board that is played at pyusb.

Snagboot stands in an environment of its own, as its pyserial replaces labgrid's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.tool_environment import programs_of

from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError

pytestmark = pytest.mark.soak

PLAYED = Path(__file__).parent / "played"
LIMIT_S = 300


@pytest.fixture
def program() -> str:
    return str(programs_of("snagboot==3.0.1") / "snagrecover")


@pytest.fixture
def images(tmp_path: Path) -> Mapping[str, Path]:
    found = {}
    for number, name in enumerate(("tiboot3.bin", "tispl.bin", "u-boot.img"), start=1):
        found[name] = tmp_path / name
        found[name].write_bytes(os.urandom(3000 * number))
    return found


@pytest.fixture
def usb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the board on USB keeps what it was sent."""
    folder = tmp_path / "usb"
    folder.mkdir()
    monkeypatch.setenv("BOARDLAB_PLAYED_USB", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(PLAYED))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("port", ["3-1.2", ""])
def test_a_blank_board_is_sent_its_recovery_set(
    program: str, images: Mapping[str, Path], usb: Path, port: str
) -> None:
    end = snagboot.run_here(snagboot.recover_command(program, "am625", images, port), LIMIT_S)
    snagboot.judge_recovery(end)
    sent = {path.name: path.read_bytes() for path in usb.iterdir()}
    data = {name: path.read_bytes() for name, path in images.items()}
    assert sent == {
        "0-bootloader": data["tiboot3.bin"],
        "1-tispl.bin": data["tispl.bin"],
        "1-u-boot.img": data["u-boot.img"],
        "2-u-boot.img": data["u-boot.img"],
    }, end


def test_a_board_at_another_port_is_not_taken(program: str, images: Mapping[str, Path], usb: Path) -> None:
    end = snagboot.run_here(snagboot.recover_command(program, "am625", images, "3-1.3"), LIMIT_S)
    with pytest.raises(RecoveryFailedError, match="saw no board on USB"):
        snagboot.judge_recovery(end)
    assert list(usb.iterdir()) == []
