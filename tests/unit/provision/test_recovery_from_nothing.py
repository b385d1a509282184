"""A board with nothing on its media reaches U-Boot, over its console and over USB, also after a try that was cut short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from support.atlength import either
from support.simlab import SimLab
from support.simprovision import NEW, provisioning
from support.simrecovery import STAGE_BYTES, PlayedSnagrecover, images, recovery
from support.simtarget import strategy_on

from lab.control import provisioning as strategies_provisioning
from lab.errors import ConfigurationError
from lab.provision import snagboot
from lab.provision.errors import RecoveryFailedError, WriteStalledError
from lab.provision.release import Recovery
from lab.provision.writer import WriteProgress
from lab.virtual.sim import firmware

TENTHS = range(0, 100, either(50, 10))

pytestmark = pytest.mark.longer


class KilledError(BaseException):
    """Stands for kill -9: nothing of ours runs after it."""


def blank(board_type: str = "am62xx_sk") -> SimLab:
    """A board as from its factory."""
    lab = SimLab(board_type, time_scale=0.1)
    for medium in lab.board.model.board.media:
        lab.board.storage.medium(medium).wipe()
    return lab


def digests(lab: SimLab) -> dict[str, str]:
    """Of everything that outlives the power."""
    found: dict[str, str] = {}
    for medium in lab.board.model.board.media:
        found |= lab.board.storage.medium(medium).digests()
    return found


@contextmanager
def board(lab: SimLab) -> Iterator[Any]:
    with strategy_on(lab, mcu=False) as strategy:
        yield strategy


def nothing(_progress: WriteProgress) -> None: ...


def at_u_boot(strategy: Any) -> bool:
    """Whether its prompt answers."""
    return "alive" in strategy.uboot.run_check("echo ali''ve")


def test_a_blank_board_boots_nothing_and_says_nothing() -> None:
    lab = blank()
    lab.on("emmc")
    lab.run_for(60_000_000_000)
    assert lab.said() == ""


def test_by_uart_it_reaches_the_prompt_and_no_medium_is_touched(tmp_path: Path) -> None:
    lab, told = blank(), []
    before = digests(lab)
    with board(lab) as strategy:
        strategies_provisioning.by_uart(strategy, recovery(tmp_path), told.append)
        assert at_u_boot(strategy)
    assert digests(lab) == before
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    assert told[-1].done == told[-1].total == sum(len(data) for data in images().values())
    assert lab.said().count("Trying to boot from UART") == 2


@pytest.mark.parametrize("way", ["uart", "usb"])
def test_an_am62a_comes_up_by_straps_of_its_own(tmp_path: Path, way: str) -> None:
    lab = blank("am62axx_sk")
    files = recovery(tmp_path, images("am62axx_sk", "09.02"), way=way)
    with board(lab) as strategy:
        if way == "uart":
            strategies_provisioning.by_uart(strategy, files, nothing)
        else:
            strategies_provisioning.by_usb(strategy, files, nothing, run=PlayedSnagrecover(lab))
        assert at_u_boot(strategy)
        assert lab.straps == {"uart": 0x03B, "usb": 0x053}[way]  # U-Boot doc/board/ti/am62ax_sk.rst


def test_by_usb_it_reaches_the_prompt_and_no_medium_is_touched(tmp_path: Path) -> None:
    lab, told = blank(), []
    before = digests(lab)
    with board(lab) as strategy:
        strategies_provisioning.by_usb(
            strategy, recovery(tmp_path, way="usb"), told.append, run=PlayedSnagrecover(lab)
        )
        assert at_u_boot(strategy)
    assert digests(lab) == before
    assert told[-1].done == told[-1].total
    assert lab.said().count("Trying to boot from DFU") == 2


@pytest.mark.parametrize("percent", TENTHS)
@pytest.mark.parametrize("end", ["killed", "power lost"])
def test_a_uart_recovery_that_was_cut_short_is_begun_anew_by_the_next_try(
    tmp_path: Path, percent: int, end: str
) -> None:
    lab, files = blank(), recovery(tmp_path)

    def cut(progress: WriteProgress) -> None:
        if progress.done * 100 >= percent * progress.total:
            if end == "killed":
                raise KilledError
            lab.off()

    with board(lab) as strategy, pytest.raises((KilledError, RecoveryFailedError, WriteStalledError)) as caught:
        strategies_provisioning.by_uart(strategy, files, cut)
    assert caught.type is KilledError or end == "power lost"
    with board(lab) as strategy:
        strategies_provisioning.by_uart(strategy, files, nothing)
        assert at_u_boot(strategy)


@pytest.mark.parametrize("percent", TENTHS)
def test_a_usb_recovery_that_was_cut_short_is_begun_anew_by_the_next_try(tmp_path: Path, percent: int) -> None:
    lab, files, total = blank(), recovery(tmp_path, way="usb"), sum(STAGE_BYTES.values())

    def cut(count: int) -> None:
        if count * 100 >= percent * total:
            raise KilledError

    with board(lab) as strategy, pytest.raises(KilledError):
        strategies_provisioning.by_usb(strategy, files, nothing, run=PlayedSnagrecover(lab, cut))
    with board(lab) as strategy:
        strategies_provisioning.by_usb(strategy, files, nothing, run=PlayedSnagrecover(lab))
        assert at_u_boot(strategy)


@pytest.mark.parametrize("wrong", ["another board", "damaged", "another device"])
def test_a_first_stage_that_the_rom_refuses_fails_as_that(tmp_path: Path, wrong: str) -> None:
    made = images("am62axx_sk") if wrong == "another board" else images()
    if wrong == "damaged":
        made["tiboot3.bin"] = made["tiboot3.bin"][:-1] + b"?"
    if wrong == "another device":
        made["tiboot3.bin"] = firmware.make("tiboot3.bin", "am62xx_sk", "11.01", device="HS-SE")
    lab = blank()
    with board(lab) as strategy, pytest.raises(RecoveryFailedError, match=r"tispl\.bin: .*ROM asks"):
        strategies_provisioning.by_uart(strategy, recovery(tmp_path, made), nothing)
    with board(lab) as strategy:
        strategies_provisioning.by_uart(strategy, recovery(tmp_path), nothing)
        assert at_u_boot(strategy)


def test_a_board_whose_rom_does_not_ask_fails_with_what_to_look_at(tmp_path: Path) -> None:
    lab = blank()
    with board(lab) as strategy:
        strategy.type = evolve(strategy.type, recovery={"uart": 0x04B})  # that selects a medium
        with pytest.raises(RecoveryFailedError, match=r"nothing\. .*select UART"):
            strategies_provisioning.by_uart(strategy, recovery(tmp_path), nothing)


def test_a_boot_mode_that_is_assumed_is_said_to_be(tmp_path: Path) -> None:
    lab = blank()
    with board(lab) as strategy:
        assumed = {"recovery": "assumed: nobody tried it"}
        strategy.type = evolve(strategy.type, recovery={"uart": 0x04B}, references=assumed)
        with pytest.raises(RecoveryFailedError, match=r"0x4b.*UART boot.*nobody"):
            strategies_provisioning.by_uart(strategy, recovery(tmp_path), nothing)


def test_without_stages_or_straps_nothing_is_switched(tmp_path: Path) -> None:
    lab = blank()
    with board(lab) as strategy:
        with pytest.raises(ConfigurationError, match="recovery: uart"):
            strategies_provisioning.by_uart(strategy, Recovery(), nothing)
        strategy.boot_mode = None
        with pytest.raises(ConfigurationError, match=r"switches to 0x3b by hand"):
            strategies_provisioning.by_uart(strategy, recovery(tmp_path), nothing)
    assert lab.board.cycle == 0


@pytest.mark.parametrize(("way", "medium"), [("uart", "ospi"), ("uart", "emmc"), ("usb", "ospi")])
def test_a_blank_board_is_provisioned_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, medium: str
) -> None:
    with provisioning(tmp_path, medium) as made:
        for name in made.lab.board.model.board.media:
            made.lab.board.storage.medium(name).wipe()
        monkeypatch.setattr(strategies_provisioning, "run_here", PlayedSnagrecover(made.lab))
        monkeypatch.setattr(snagboot, "find_program", lambda: "snagrecover")
        strategies_provisioning.recover_by(made.strategy, made.release(recovery(tmp_path, way=way)), way, nothing)
        before = made.elsewhere()
        made.provision()
        assert made.boots(NEW)
        assert made.elsewhere() == before


@pytest.mark.parametrize(
    ("way", "says"),
    [("jtag", "expected uart, usb, or usb:PORT"), ("uart:3", "expected uart"), ("usb", "has no `recovery: usb:`")],
)
def test_a_way_that_cannot_be_is_refused_at_once(tmp_path: Path, way: str, says: str) -> None:
    with provisioning(tmp_path) as made, pytest.raises(ConfigurationError, match=says):
        strategies_provisioning.recover_by(made.strategy, made.release(recovery(tmp_path)), way, nothing)
