"""The QEMU boards with a boot ROM and SPL, at length."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from labgrid.environment import Environment
from support import qemu_boards
from support.killing import assert_run_survives
from support.measuring_lab import Lab, running_lab

from lab import boards
from lab.metrics import Flag
from lab.results import open_store

pytestmark = pytest.mark.soak

CYCLES = 20
SURVIVORS = 10
INIT_S = 300
WRITTEN_MIB, OFFSET_MIB = 16, 44  # behind what the file system of the medium holds
BLOCKS_PER_MIB = 2048
ADDRESS = 0x4800_0000
NUMBERS = 2_500_000  # as text more than is written; no two blocks are the same
# The eMMC slot's disk, whatever Linux calls it.
SLOT = "$(ls /sys/devices/platform/soc/1c11000.mmc/mmc_host/*/*/block 2>/dev/null)"


@pytest.fixture(params=qemu_boards.TYPES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with running_lab(tmp_path, *qemu_boards.up_words(request.param)) as lab:
        yield lab


def board_type_of(lab: Lab) -> str:
    return lab.bench.board.type


@pytest.mark.timeout(CYCLES * 2 * qemu_boards.CYCLE_S)
def test_twenty_cycles_from_each_medium(lab: Lab) -> None:
    qemu_boards.measure(lab, CYCLES, board_type_of(lab))


@pytest.mark.timeout(SURVIVORS * 2 * qemu_boards.CYCLE_S)
def test_a_run_survives_the_death_of_every_process(lab: Lab) -> None:
    board = boards.load(board_type_of(lab))
    medium = list(board.media)[-1]
    assert_run_survives(lab, medium, SURVIVORS)
    qemu_boards.assert_cycles(lab, board, SURVIVORS, (medium,))


def test_another_init_is_measured_to_its_prompt(lab: Lab) -> None:
    medium = list(boards.load(board_type_of(lab)).media)[-1]
    process = lab.pytest("--lab-cycles", "1", "--lab-medium", medium, "--lab-init", "/bin/sh")
    assert process.wait(INIT_S) == pytest.ExitCode.OK, lab.log
    (attempt,) = qemu_boards.attempts(lab)
    assert [moment.name for moment in attempt.moments][-1] == "shell"
    assert attempt.details["medium_seen"] == dict.fromkeys(qemu_boards.SOURCES, medium)
    assert Flag.MEDIUM_UNVERIFIED not in {flag for sample in attempt.samples for flag in sample.flags}


def test_a_kernel_panic_is_one_of_the_board(lab: Lab) -> None:
    board = boards.load(board_type_of(lab))
    medium = list(board.media)[-1]
    process = lab.pytest(
        "--lab-cycles", "1", "--lab-medium", medium, "--lab-init", "/bin/busybox", "--lab-retries", "0"
    )
    assert process.wait(INIT_S) == pytest.ExitCode.TESTS_FAILED, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        (attempt,) = store.attempts(1)
    assert (attempt.outcome, attempt.fault) == ("kernel_panic", "board")


@pytest.mark.parametrize(("words", "same"), [((), True), (("--stock",), False)], ids=["mended", "stock"])
def test_reading_back_tells_that_linux_wrote_wrong_data_with_the_stock_device_tree(
    words: tuple[str, ...], same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_lab(tmp_path, *qemu_boards.up_words("bpim2u"), *words) as lab:
        monkeypatch.setitem(os.environ, "BOARDLAB_RUNTIME", lab.environ["BOARDLAB_RUNTIME"])
        env = Environment(config_file=str(qemu_boards.environment(lab)))
        try:
            strategy = env.get_target().get_strategy()
            strategy.select_medium("sd")
            strategy.transition("linux")
            run = strategy.shell.run_check
            run("dmesg -n 1")  # what the kernel says of its drivers would stand in the output of commands
            run("/etc/init.d/load-media")
            run(f'until [ "{SLOT}" ]; do usleep 100000; done')
            run(f"seq 1 {NUMBERS} | head -c {WRITTEN_MIB}m > /tmp/data", timeout=INIT_S)
            run(f"dd if=/tmp/data of=/dev/{SLOT} bs=1M seek={OFFSET_MIB} conv=fsync", timeout=INIT_S)
            # Not by Linux, which reads with the same driver.
            strategy.transition("bootloader")
            run = strategy.uboot.run_check
            run("mmc dev 1")
            run(f"mmc read {ADDRESS:x} {OFFSET_MIB * BLOCKS_PER_MIB:x} {WRITTEN_MIB * BLOCKS_PER_MIB:x}")
            said = run(f"crc32 {ADDRESS:x} {WRITTEN_MIB << 20:x}; echo")  # crc32 ends no line
            (found,) = re.findall(r"==> ([0-9a-f]{8})", "".join(said))
        finally:
            env.cleanup()
    written = "".join(f"{number}\n" for number in range(1, NUMBERS + 1)).encode()[: WRITTEN_MIB << 20]
    assert (int(found, 16) == zlib.crc32(written)) is same
