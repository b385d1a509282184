"""Where a run's numbers come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import boards
from lab.errors import ConfigurationError
from lab.host.clock import MonotonicRaw
from lab.run.provenance import collect


def provenance(tmp_path: Path, board_type: str, console: str | None) -> dict[str, object]:
    env = tmp_path / "env.yaml"
    env.write_text("targets: {}\n")
    return collect(
        board_type=boards.load(board_type),
        board="x-1",
        release="11.01",
        env=env,
        images={},
        clock=MonotonicRaw(),
        console=console,
    )


def test_a_board_on_a_pseudo_terminal_is_virtual_whatever_its_type(tmp_path: Path) -> None:
    master, slave = os.openpty()
    link = tmp_path / "main0"
    link.symlink_to(os.ttyname(slave))
    try:
        assert provenance(tmp_path, "am62xx_sk", str(link))["virtual"] is True
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("board_type", "console", "virtual"),
    [("am62xx_sk", "/dev/null", False), ("am62xx_sk", None, False), ("qemu-virt", None, True)],
)
def test_a_board_on_another_device_is_what_its_type_says(
    tmp_path: Path, board_type: str, console: str | None, virtual: bool
) -> None:
    assert provenance(tmp_path, board_type, console)["virtual"] is virtual


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    env = tmp_path / "env.yaml"
    env.write_text("targets: {}\n")
    with pytest.raises(ConfigurationError, match=r"kernel\.img: .*read"):
        collect(
            board_type=boards.load("am62xx_sk"),
            board="x-1",
            release="11.01",
            env=env,
            images={"kernel": tmp_path / "kernel.img"},
            clock=MonotonicRaw(),
        )
