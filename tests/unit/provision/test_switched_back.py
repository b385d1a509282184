"""A release that reads back well and does not boot: the eMMC boots again what it booted before, and a person is told so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from attrs import evolve
from support.deadrelease import DEAD, Emmc, cut, dead, duration_ns, old_board
from support.facts import missing_facts
from support.playedwriters import PlayedWriter
from support.simprovision import NEW, OLD, content

from lab.errors import BoardlabError, BoardTransientError, LabTransientError
from lab.provision.errors import MediaWriteFailedError, ReleaseMismatchError
from lab.provision.history import ProvisionBook
from lab.provision.release import Content, PartPlace
from lab.results import open_store
from lab.virtual.sim.storage import BOOT_CONFIG


@pytest.fixture
def emmc(tmp_path: Path) -> Iterator[Emmc]:
    with old_board(tmp_path) as found:
        yield found


def test_a_board_of_these_tests_boots_the_old_release(emmc: Emmc) -> None:
    assert emmc.boots(OLD)


@pytest.mark.parametrize("part", DEAD)
def test_what_does_not_boot_is_switched_back_from(emmc: Emmc, tmp_path: Path, part: str) -> None:
    before = emmc.area(1)
    with pytest.raises(BoardlabError, match=r"boots from boot0 again") as caught:
        emmc.put(dead(tmp_path, part))
    assert caught.value.fault == "board"
    assert (emmc.boots_from(), emmc.area(1), emmc.boots(OLD)) == (1, before, True)


def test_what_boots_and_says_something_else_is_switched_back_from_too(emmc: Emmc, tmp_path: Path) -> None:
    with pytest.raises(ReleaseMismatchError, match=r"'1999.*boot0 again.*boot1"):
        emmc.put(content(tmp_path, "emmc", NEW), expected=r"1999\.01")
    record = emmc.record()
    assert (record.state, record.boots, record.kept) == ("failed", "boot1", "boot0")
    assert "[release_mismatch]" in record.message
    assert "boots from boot0 again" in record.message
    assert not missing_facts("\n".join(emmc.said), "emmc: boot1", "not booted", "boot0")
    assert emmc.boots(OLD)


def test_after_it_the_next_release_goes_to_the_same_partition_and_then_to_the_other(
    emmc: Emmc, tmp_path: Path
) -> None:
    before = emmc.area(1)
    with pytest.raises(BoardlabError):
        emmc.put(dead(tmp_path, "tispl.bin"))
    emmc.put(content(tmp_path, "emmc", NEW))
    assert (emmc.record().state, emmc.boots_from(), emmc.area(1)) == ("booted", 2, before)
    emmc.put(content(tmp_path, "emmc", OLD), OLD)
    assert (emmc.record().boots, emmc.record().kept, emmc.boots_from()) == ("boot0", "boot1", 1)


def test_also_where_the_lab_failed_the_board_boots_what_is_known_to_boot(
    emmc: Emmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def booted(*_: object) -> dict[str, str]:
        raise LabTransientError("booted from the wrong medium", failure="wrong_medium")

    monkeypatch.setattr(emmc.made.strategy, "booted", booted, raising=False)
    with pytest.raises(LabTransientError, match=r"emmc boots from boot0") as caught:
        emmc.put(content(tmp_path, "emmc", NEW))
    assert (caught.value.failure, emmc.boots_from()) == ("wrong_medium", 1)


def test_where_no_prompt_is_reached_the_next_try_switches_back_before_it_writes(emmc: Emmc, tmp_path: Path) -> None:
    before, says = emmc.area(1), emmc.said

    def fails() -> None:
        if says and "switching back" in says[-1]:
            raise BoardTransientError("no prompt", failure="autoboot_missed")

    emmc.fails = fails
    with pytest.raises(
        BoardlabError,
        match=r"boot0.*--from-nothing",
    ):
        emmc.put(dead(tmp_path, "tiboot3.bin"))
    assert (emmc.boots_from(), emmc.record().boots, emmc.record().kept) == (2, "boot1", "boot0")
    emmc.fails, heard = (lambda: None), len(emmc.made.lab.said())
    emmc.put(content(tmp_path, "emmc", NEW))
    assert re.search(
        r"mmc partconf 0 1 1 0.*mmc write .*mmc partconf 0 1 2 0", emmc.made.lab.said()[heard:], re.DOTALL
    )
    assert (emmc.record().state, emmc.boots_from(), emmc.area(1)) == ("booted", 2, before)
    assert any(not missing_facts(line, "boot1", "not booted since") for line in says)


def test_the_prompt_is_looked_for_on_one_medium_after_the_other(emmc: Emmc, tmp_path: Path) -> None:
    tried = list[str]()
    emmc.starts = None

    def fails() -> None:
        if emmc.said and "switching back" in emmc.said[-1]:
            tried.append(emmc.made.strategy.medium)
            if tried[-1] == "sd":
                raise BoardTransientError("no prompt", failure="autoboot_missed")

    emmc.fails = fails
    with pytest.raises(BoardlabError, match=r"emmc boots from boot0"):
        emmc.put(dead(tmp_path, "u-boot.img"))
    assert tried[0] == "sd"
    assert tried[-1] not in ("sd", "emmc")
    assert emmc.boots_from() == 1


@pytest.mark.parametrize("order", [("sd", "emmc"), ("emmc", "sd")])
def test_where_another_medium_does_not_boot_what_was_not_tried_is_switched_back(
    emmc: Emmc, tmp_path: Path, order: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    really = emmc.made.strategy.booted

    def booted(medium: str, questions: Mapping[str, str]) -> dict[str, str]:
        if medium == "sd":
            raise BoardTransientError("sd says nothing", failure="silent")
        return really(medium, questions)

    monkeypatch.setattr(emmc.made.strategy, "booted", booted, raising=False)
    emmc.others, emmc.media = {"sd": PlayedWriter()}, order
    untried = order[0] == "sd"
    with pytest.raises(BoardTransientError, match="sd says nothing") as caught:
        emmc.put(content(tmp_path, "emmc", NEW))
    assert ("boots from boot0 again" in str(caught.value)) is untried
    assert emmc.book.current("sim-1")["sd"].state == "failed"
    assert emmc.boots_from() == (1 if untried else 2)
    assert emmc.record().state == ("failed" if untried else "booted"), (
        "it counts as what was put there only if it boots"
    )
    assert ("boots from boot0 again" in emmc.record().message) is untried


def test_where_a_later_medium_cannot_be_written_what_was_not_tried_is_switched_back(
    emmc: Emmc, tmp_path: Path
) -> None:
    emmc.others, emmc.media = {"sd": PlayedWriter(breaks="u-boot.img")}, ("emmc", "sd")
    with pytest.raises(MediaWriteFailedError, match=r"broke.*from boot0 again"):
        emmc.put(dead(tmp_path, "tispl.bin"))
    assert (emmc.boots_from(), emmc.record().state, emmc.boots(OLD)) == (1, "failed", True)


def test_without_a_partition_that_booted_before_nothing_is_switched(emmc: Emmc, tmp_path: Path) -> None:
    emmc.made.lab.board.storage.medium("emmc").ext_csd[BOOT_CONFIG] = 0
    with pytest.raises(BoardlabError) as caught:
        emmc.put(dead(tmp_path, "u-boot.img"))
    assert "again" not in str(caught.value)
    assert (emmc.boots_from(), emmc.record().boots, emmc.record().kept) == (1, "boot0", "")
    emmc.put(content(tmp_path, "emmc", NEW))
    assert (emmc.record().state, emmc.boots_from()) == ("booted", 1), "what never booted is written again"


def not_switched_back(emmc: Emmc, given: Content) -> None:
    """Put on what does not boot, and reach no prompt to switch back: the eMMC is set to boot from boot1 then."""

    def fails() -> None:
        if emmc.said and "switching back" in emmc.said[-1]:
            raise BoardTransientError("no prompt", failure="autoboot_missed")

    emmc.fails = fails
    with pytest.raises(BoardlabError, match=r"not.*switched.*to boot0"):
        emmc.put(given)
    emmc.fails = lambda: None
    assert emmc.boots_from() == 2


def test_a_release_without_boot_parts_does_not_make_what_does_not_boot_known_to_boot(
    emmc: Emmc, tmp_path: Path
) -> None:
    before, good = emmc.area(1), content(tmp_path, "emmc", NEW)
    not_switched_back(emmc, dead(tmp_path, "tiboot3.bin"))
    data = evolve(good.parts[0], to=PartPlace(offset=0x100000))
    with pytest.raises(BoardlabError):
        emmc.put(Content(parts=[data]))
    assert (emmc.record().boots, emmc.boots_from()) == ("", 2)
    with pytest.raises(BoardlabError, match=r"emmc boots from boot0"):
        emmc.put(dead(tmp_path, "tispl.bin"))
    assert (emmc.boots_from(), emmc.area(1), emmc.boots(OLD)) == (1, before, True)


def test_a_try_that_ended_before_it_switched_back_does_not_either(emmc: Emmc, tmp_path: Path) -> None:
    before = emmc.area(1)
    not_switched_back(emmc, dead(tmp_path, "u-boot.img"))

    def fails() -> None:
        if emmc.said and emmc.said[-1].startswith("emmc: by"):
            raise BoardTransientError("no prompt", failure="autoboot_missed")

    emmc.fails = fails
    with pytest.raises(BoardTransientError, match=r"^no prompt$"):
        emmc.put(content(tmp_path, "emmc", NEW))
    emmc.fails = lambda: None
    assert emmc.boots_from() == 2
    emmc.put(content(tmp_path, "emmc", NEW))
    assert (emmc.record().state, emmc.boots_from(), emmc.area(1)) == ("booted", 2, before)


def test_what_boots_by_another_store_is_kept_whatever_this_one_has_on_record(emmc: Emmc, tmp_path: Path) -> None:
    with open_store(str(tmp_path / "theirs.db")) as store:
        ours, theirs = emmc.book, ProvisionBook(store)
        with pytest.raises(BoardlabError):
            emmc.put(dead(tmp_path, "u-boot.img"))
        emmc.book = theirs
        emmc.put(content(tmp_path, "emmc", NEW))
        with pytest.raises(BoardlabError, match=r"emmc boots from boot1"):
            emmc.put(dead(tmp_path, "tiboot3.bin"))
        good, emmc.book = emmc.area(2), ours
        emmc.said.clear()
        emmc.put(content(tmp_path, "emmc", NEW))
        assert not any("has not booted since" in line for line in emmc.said)
        assert (emmc.boots_from(), emmc.area(2), emmc.record().kept) == (1, good, "boot1")


def test_a_bus_that_could_not_be_read_is_not_said_to_be_as_before(emmc: Emmc, tmp_path: Path) -> None:
    with pytest.raises(BoardlabError, match=r"boot0 again.*\(bootbus\)"):
        emmc.put(dead(tmp_path, "u-boot.img"))


def test_cut_short_the_old_release_stays_and_the_next_try_does_it(tmp_path: Path) -> None:
    """Each tenth and each end: tests/system."""
    began_ns, ended_ns = duration_ns(tmp_path)
    cut(tmp_path, began_ns + (ended_ns - began_ns) * 8 // 10, "killed")


def test_what_the_emmc_lost_is_never_kept_in_place_of_what_boots(
    emmc: Emmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read back well, and a person ended the program before it booted."""
    before = emmc.area(1)

    def booted(*_: object) -> dict[str, str]:
        emmc.made.lab.board.storage.medium("emmc").space(2).write(0, bytes(1 << 16))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(emmc.made.strategy, "booted", booted, raising=False)
        with pytest.raises(KeyboardInterrupt):
            emmc.put(content(tmp_path, "emmc", NEW))
    assert emmc.boots_from() == 2
    with pytest.raises(ReleaseMismatchError, match=r"emmc boots from boot0 again"):
        emmc.put(content(tmp_path, "emmc", NEW), expected=r"1999\.01")
    assert (emmc.boots_from(), emmc.area(1), emmc.boots(OLD)) == (1, before, True)
