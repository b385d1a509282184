"""An eMMC keeps the boot path that it had: whenever a provisioning ends, the board boots the old release or the new one."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from support.atlength import either
from support.facts import missing_facts
from support.simcuts import ENDS, KilledError
from support.simprovision import NEW, OLD, Provisioning, content, provisioning

from lab.errors import BoardlabError, LabStableError
from lab.provision.errors import MediaVerifyFailedError
from lab.provision.release import Content, ExtCsd
from lab.provision.writer import Plan
from lab.provision.writers import planning
from lab.provision.writers.emmc_boot_partitions import SpareBootWriter, boot_partition, from_uboot, move_boot_parts
from lab.run.board import Status
from lab.virtual.sim.storage import BOOT_CONFIG

FROM_BOOT0, FROM_BOOT1 = 0x48, 0x50

pytestmark = pytest.mark.longer


def spare(made: Provisioning) -> SpareBootWriter:
    return from_uboot(made.writer(), 0)


def boots_from(made: Provisioning) -> int:
    return made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] >> 3 & 7


def provision(made: Provisioning, release: str) -> Plan:
    """Put a release on the board, and boot it."""
    writer = spare(made)
    plan = writer.plan(content(made.folder, "emmc", release), made.target())
    writer.write(plan, made.reached)
    writer.verify(plan)
    writer.switch(plan)
    return plan


@pytest.fixture
def made(tmp_path: Path) -> Any:
    with provisioning(tmp_path, "emmc") as made:
        made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] = FROM_BOOT0
        yield made


def test_one_release_after_the_other_goes_to_the_partition_that_is_not_booted_from(made: Provisioning) -> None:
    first = made.lab.board.storage.medium("emmc").space(1).digest()
    plan = provision(made, NEW)
    assert not missing_facts(plan.notes[-1], "boot1", "boot0 keeps")
    assert (boots_from(made), made.boots(NEW)) == (2, True)
    assert made.lab.board.storage.medium("emmc").space(1).digest() == first
    made.end()
    provision(made, OLD)
    assert (boots_from(made), made.boots(OLD)) == (1, True)


def test_what_is_on_the_board_is_verified_where_the_board_boots_from(made: Provisioning) -> None:
    provision(made, NEW)
    made.end()
    writer = spare(made)
    plan = writer.plan(content(made.folder, "emmc", NEW), made.target())
    assert plan.content.extcsd.partconf[1] == 1, "it would be written to the other one"
    assert writer.verify(plan.to_read).bytes == plan.total_bytes
    assert made.strategy.status is Status.unknown, "nothing comes after it, so the board is let go"
    writer.switch(plan.to_read)
    assert boots_from(made) == 2
    with pytest.raises(BoardlabError, match="read back"):
        writer.verify(plan)
    other = spare(made).plan(content(made.folder, "emmc", OLD), made.target())
    with pytest.raises(BoardlabError, match="read back"):
        spare(made).verify(other.to_read)


def test_what_was_written_wrong_is_never_switched_to_and_the_next_try_writes_it_again(made: Provisioning) -> None:
    emmc = made.lab.board.storage.medium("emmc")
    before = emmc.space(1).digest()
    for _ in range(2):
        writer = spare(made)
        plan = writer.plan(content(made.folder, "emmc", NEW), made.target())
        assert not missing_facts(plan.notes[-1], "boot1", "boot0 keeps")
        writer.write(plan, made.reached)
        first = emmc.space(2).read(0, 1)
        emmc.space(2).write(0, bytes([first[0] ^ 1]))
        with pytest.raises(MediaVerifyFailedError, match="read back at 0x0"):
            writer.verify(plan)
        assert (boots_from(made), emmc.space(1).digest()) == (1, before)
        assert made.boots(OLD)
        made.end()
    said = len(made.lab.said())
    provision(made, NEW)
    assert re.search(r"mmc read .*mmc bootbus .*mmc partconf 0 1 2 0", made.lab.said()[said:], re.DOTALL)
    assert (boots_from(made), made.boots(NEW)) == (2, True)


@pytest.mark.parametrize("tenth", range(either(2, 0), 10, either(3, 1)))
def test_whenever_it_is_cut_short_the_board_boots_the_old_release_or_the_new_one(
    made: Provisioning, tenth: int
) -> None:
    writer = spare(made)
    plan = writer.plan(content(made.folder, "emmc", NEW), made.target())
    signs = [
        "bdinfo",
        "u-boot.img-0",
        "mmc write",
        "tispl.bin-0",
        "tiboot3.bin-0",
        "mmc dev 0 0",
        "mmc read",
        "hash sha256",
        "mmc bootbus",
        "partconf 0 1 2",
    ]
    end = list(ENDS)[tenth % len(ENDS)]
    said, struck = made.lab.ports[made.lab.console].said, []
    begin = len(said)

    def strike() -> None:
        if said.find(signs[tenth].encode(), begin) >= 0:
            struck.append(end)
            ENDS[end](made)
        else:
            made.lab.strike_ns, made.lab.strike = made.lab.now_ns, strike

    made.lab.strike_ns, made.lab.strike = made.lab.now_ns, strike
    with suppress(KilledError, BoardlabError):
        writer.write(plan, made.reached)
        writer.verify(plan)
        writer.switch(plan)
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
    both = [given.parts[0], *move_boot_parts(given, "boot1").parts[1:]]
    assert boot_partition(Content(parts=both, extcsd=given.extcsd)) == "", "it fills both itself"


def test_a_board_that_cannot_be_asked_what_it_boots_from_is_let_go(made: Provisioning) -> None:
    ended: list[str] = []
    writer = from_uboot(evolve(made.writer(), end=lambda: ended.append("end")), 7)  # the board has no such eMMC
    with pytest.raises(BoardlabError, match="mmc partconf 7"):
        writer.plan(content(made.folder, "emmc", NEW), made.target())
    assert ended


def test_a_board_is_let_go_where_the_images_cannot_be_read(
    made: Provisioning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise LabStableError("the image is gone")

    monkeypatch.setattr(planning, "pieces", unreadable)
    ended: list[str] = []
    writer = from_uboot(evolve(made.writer(), end=lambda: ended.append("end")), 0)
    with pytest.raises(LabStableError, match="image is gone"):
        writer.plan(content(made.folder, "emmc", NEW), made.target())
    assert ended == ["end"]
