"""A run asks its board who it is, and one run is of one board and one software."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.simruns import bench

from lab.virtual.sim.faults.base import Fault
from lab.virtual.sim.model import serial_number


def test_the_first_boot_of_a_run_says_which_board_it_was_and_where_its_root_is(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=2, seed=7) as made:
        first, second = made.measure()
        assert first.details["identity"]["serial"] == serial_number(7)
        assert first.details["identity"]["root"] == "mmcblk1p2"
        assert made.strategy.software == first.details["software"]
        assert set(made.strategy.software) >= {"uboot", "kernel"}
        assert first.details["medium_seen"]["shell"] == "sd"
        assert "identity" not in second.details, "once a medium is enough"
        assert b"serial-number" not in made.store.artifacts.read(first.artifacts[0].sha256), (
            "the login is no part of the boot"
        )


def test_a_medium_that_is_mounted_says_what_it_is_whatever_was_printed(tmp_path: Path) -> None:
    for medium, root in (("emmc", "mmcblk0p1"), ("ospi", "ubi0:rootfs")):
        folder = tmp_path / medium
        folder.mkdir()
        with bench(folder) as made:
            (attempt,) = made.measure(medium)
            assert attempt.details["identity"]["root"] == root
            assert attempt.details["medium_seen"]["shell"] == medium


def test_another_board_than_the_env_names_has_no_sample(tmp_path: Path) -> None:
    with bench(tmp_path, seed=7) as made:
        made.strategy.identity = serial_number(8)
        (attempt,) = made.measure()
        assert attempt.outcome == "wrong_board"
        assert serial_number(7) in attempt.message
        assert serial_number(8) in attempt.message
        assert made.samples_s() == []


@pytest.mark.parametrize("expected", [serial_number(1), ""])
def test_a_board_that_does_not_say_what_the_env_expects_is_flagged(tmp_path: Path, expected: str) -> None:
    with bench(tmp_path, cycles=2) as made:
        made.strategy.identity = expected
        made.strategy.shell.username = "nobody"  # nobody can log in, and the boot is not to blame
        attempts = made.measure()
        assert [attempt.outcome for attempt in attempts] == ["ok", "ok"]
        samples = [sample for attempt in attempts for sample in attempt.samples]
        assert {"board_unverified" in sample.flags for sample in samples} == {bool(expected)}


def test_another_software_in_the_middle_of_a_run_is_refused_and_both_are_named(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=2) as made:
        board = made.lab.board
        old = board.model.release.kernel

        def updated(cycle: int) -> list[Fault]:
            if cycle > 1:
                board.model = evolve(board.model, release=evolve(board.model.release, kernel="6.12.99-new"))
            return []

        board.troubles_for = updated
        attempts = made.measure()
        assert [attempt.outcome for attempt in attempts] == ["ok", *["software_changed"] * 3]
        assert old in attempts[-1].message
        assert "6.12.99-new" in attempts[-1].message
        assert len(made.samples_s()) == 1


def test_a_first_boot_that_did_not_name_its_kernel_leaves_that_to_the_second(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=3) as made:
        board, release = made.lab.board, made.lab.board.model.release

        def each(cycle: int) -> list[Fault]:
            kernel = {1: "6.12.34-\x01damaged", 2: release.kernel}.get(cycle, "6.12.99-new")
            board.model = evolve(board.model, release=evolve(release, kernel=kernel))
            return []

        board.troubles_for = each
        made.strategy.asked = lambda *_: None  # the damage is of the console's line, not of /proc/version
        attempts = made.measure()
        assert [attempt.outcome for attempt in attempts] == ["ok", "ok", *["software_changed"] * 3]
        assert not missing_facts(attempts[-1].message, "cycle 2 of this run")
