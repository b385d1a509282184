"""An eMMC keeps the boot path that it had: whenever a provisioning ends, the board boots the old release or the new one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from simcuts import ENDS, KilledError
from simprovision import NEW, OLD, Provisioning, content, provisioning

from lab.errors import BoardlabError
from lab.provision.release import Content, ExtCsd
from lab.provision.way import Plan
from lab.provision.ways.spareboot import SpareBootWay, boot_partition, from_uboot, moved
from virtual.sim.storage import BOOT_CONFIG

FROM_BOOT0, FROM_BOOT1 = 0x48, 0x50


def spare(made: Provisioning) -> SpareBootWay:
    return from_uboot(made.way(), 0)


def boots_from(made: Provisioning) -> int:
    return made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] >> 3 & 7


def provision(made: Provisioning, release: str) -> Plan:
    """Put a release on the board, and boot it."""
    way = spare(made)
    plan = way.plan(content(made.folder, "emmc", release), made.target())
    way.write(plan, made.reached)
    way.verify(plan)
    return plan


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with provisioning(tmp_path, "emmc") as made:
        made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] = FROM_BOOT0
        yield made


def test_one_release_after_the_other_goes_to_the_partition_that_is_not_booted_from(made: Provisioning) -> None:
    first = made.lab.board.storage.medium("emmc").space(1).digest()
    plan = provision(made, NEW)
    assert plan.notes[-1] == "the boot parts go to boot1, and boot0 keeps what it has"
    assert (boots_from(made), made.boots(NEW)) == (2, True)
    assert made.lab.board.storage.medium("emmc").space(1).digest() == first
    made.end()
    provision(made, OLD)
    assert (boots_from(made), made.boots(OLD)) == (1, True)


def test_what_is_on_the_board_is_verified_where_the_board_boots_from(made: Provisioning) -> None:
    provision(made, NEW)
    made.end()
    way = spare(made)
    plan = way.plan(content(made.folder, "emmc", NEW), made.target())
    assert plan.content.extcsd.partconf[1] == 1, "it would be written to the other one"
    assert way.verify(plan).bytes == plan.total_bytes
    made.end()
    other = spare(made).plan(content(made.folder, "emmc", OLD), made.target())
    with pytest.raises(BoardlabError, match="read back"):
        spare(made).verify(other)


@pytest.mark.parametrize("tenth", range(10))
def test_whenever_it_is_cut_short_the_board_boots_the_old_release_or_the_new_one(
    made: Provisioning, tenth: int
) -> None:
    way = spare(made)
    plan = way.plan(content(made.folder, "emmc", NEW), made.target())
    commands = [f"{each}-0" for each in ("u-boot.img", "tispl.bin", "tiboot3.bin")]
    signs = [
        *commands,
        "mmc write",
        "mmc bootbus",
        "partconf 0 1 2",
        "crc32 0x",
        "mmc dev 0 0",
        "mmc dev 0 2",
        "bdinfo",
    ]
    end = list(ENDS)[tenth % len(ENDS)]
    said, struck = len(made.lab.said()), []

    def strike() -> None:
        if signs[tenth] in made.lab.said()[said:]:
            struck.append(end)
            ENDS[end](made)
        else:
            made.lab.strike_ns, made.lab.strike = made.lab.now_ns, strike

    made.lab.strike_ns, made.lab.strike = made.lab.now_ns, strike
    with suppress(KilledError, BoardlabError):
        way.write(plan, made.reached)
    made.lab.strike_ns = None
    assert struck == [end]
    made.end()
    assert made.boots(OLD) or (signs[tenth].startswith("partconf") and made.boots(NEW))
    made.end()
    provision(made, NEW)
    assert made.boots(NEW)


def test_it_keeps_to_the_release_where_nothing_can_be_spared(tmp_path: Path) -> None:
    given = content(tmp_path, "emmc", NEW)
    assert boot_partition(given) == "boot0"
    assert boot_partition(evolve(given, extcsd=ExtCsd())) == "", "nothing says that it switches"
    assert boot_partition(content(tmp_path, "ospi", NEW)) == "", "a flash has one place"
    both = [given.parts[0], *moved(given, "boot1").parts[1:]]
    assert boot_partition(Content(parts=both, extcsd=given.extcsd)) == "", "it fills both itself"
