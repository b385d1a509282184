"""labgrid's drivers and our strategy on a simulated board, in virtual time; the matrix of all faults is an
integration test, since it takes longer (test_sim_faults.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.simruns import bench, planned

from lab import boards
from lab.errors import ConfigurationError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, BOOT_TIME
from lab.virtual.sim.model import simulated


@pytest.mark.parametrize("board_type", simulated())
def test_labgrids_u_boot_driver_and_shell_driver_work_on_every_type(tmp_path: Path, board_type: str) -> None:
    with bench(tmp_path, board_type=board_type) as made:
        made.strategy.transition("bootloader")
        assert made.strategy.uboot.run("echo hello; false") == (["hello"], [], 1)
        assert made.strategy.uboot.run_check("version")[0].startswith("U-Boot 20")
        made.strategy.transition("linux")
        kernel = list(boards.load(board_type).releases.values())[-1].kernel
        assert made.strategy.shell.run_check("uname -r") == [kernel]
        assert made.strategy.shell.run("ls /nowhere")[2] == 1
        assert made.strategy.shell.run_check("printf 'a\\nb\\n' | tail -1") == ["b"]


def test_samples_are_the_true_boot_times_and_say_that_they_are_simulated(tmp_path: Path) -> None:
    with bench(tmp_path, cycles=3) as made:
        attempts = made.measure()
        assert [attempt.outcome for attempt in attempts] == ["ok"] * 3
        for (value, uncertainty), true in zip(made.samples_s(), made.true_boot_times_s(), strict=True):
            assert abs(value - true) <= uncertainty
        assert all(Flag.SIMULATED in sample.flags for attempt in attempts for sample in attempt.samples)


def test_a_failed_cycle_is_recorded_and_tried_again_and_the_next_one_is_clean(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("kernel_panic", cycles="2")], cycles=3) as made:
        attempts = made.measure()
        assert [(a.cycle, a.number, a.outcome) for a in attempts] == [
            (1, 1, "ok"),
            (2, 1, "kernel_panic"),
            (2, 2, "ok"),
            (3, 1, "ok"),
        ]
        assert len(made.samples_s()) == 3


def test_media_are_selected_by_straps(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        for medium in boards.load("am62xx_sk").media:
            made.strategy.select_medium(medium)
            assert set(made.strategy.boot().seen.values()) == {medium}


def test_a_kernel_that_is_given_another_init_ends_at_its_shell_and_only_what_the_kernel_took_is_counted(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as made:
        watch = made.strategy.boot(init="/bin/sh")
        samples = watch.finish()
        (boot,) = [sample for sample in samples if sample.metric == BOOT_TIME.name]
        assert boot.params == {"medium": "sd", "init": "/bin/sh"}
        assert watch.moments[-1].name == "shell"
        assert set(watch.seen.values()) == {"sd"}
        assert BOOT_POWER_ON not in [sample.metric for sample in samples]
        stages = [sample.params["stage"] for sample in samples if sample.metric == BOOT_STAGE.name]
        assert stages == ["Kernel entry", "Kernel", "User space"]
        planned_boot = made.strategy.boot()
        (usual,) = [s for s in planned_boot.finish() if s.metric == BOOT_TIME.name]
        assert "init" not in usual.params, "the next boot is an ordinary one"
        assert usual.value > boot.value


def test_a_board_type_that_does_not_say_how_refuses_another_init(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.strategy.type = evolve(made.strategy.type, init="")
        with pytest.raises(ConfigurationError, match=r"add `init` to lab/boards/types"):
            made.strategy.boot(init="/bin/sh")
