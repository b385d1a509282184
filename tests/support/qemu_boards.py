"""The QEMU boards with a boot ROM, SPL and real straps: what a run of power cycles on one of them has to show."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from lab import boards
from lab.boards import BoardType
from lab.results import open_store
from lab.results.records import Attempt
from lab.virtual.images import filetree
from lab.virtual.images.filetree import Tree
from lab.virtual.truth_log import Truth
from support.measuring_lab import ENOUGH, Lab, Number, assert_true

TYPES: Final = ("bpim2u", "sifive_u")
SOURCES: Final = {"spl", "uboot", "kernel", "rootfs"}
MORE: Final = ENOUGH // 2
CYCLE_S: Final = 240  # far more than one takes on a busy host
STAGES: Final = ("spl", "uboot", "autoboot", "kernel_load", "starting_kernel", "first_printk", "init", "login")


def up_words(board_type: str) -> list[str]:
    """The words of `lab virtual up` for a board of this type."""
    return ["--type", board_type, "--name", f"{board_type}-1"]


def extend(card: Path, tree: Tree, folder: Path) -> None:
    """Put files behind the initial RAM disk of a qemu-virt's card; the kernel unpacks both archives."""
    disk, old, new = f"{card}?offset={1 << 20}", folder / "old.gz", folder / "new.gz"
    orders = (["-R", f"dump /boot/initrd.gz {old}"], ["-w", "-R", "rm /boot/initrd.gz"])
    for order in orders:
        subprocess.run(["debugfs", *order, disk], check=True, capture_output=True)
    first = old.read_bytes()
    new.write_bytes(first + bytes(-len(first) % 4) + filetree.build(tree))
    subprocess.run(["debugfs", "-w", "-R", f"write {new} /boot/initrd.gz", disk], check=True, capture_output=True)


def boot_of(truth: Truth, board: BoardType, start_ns: int) -> float:
    """The true boot time, in seconds, of the boot whose "Starting kernel" left the UART nearest to the stamp."""
    starting = min(truth.find(rb"Starting kernel \.\.\."), key=lambda t_ns: abs(t_ns - start_ns))
    login = re.escape(board.prompts.login).encode().replace(rb"\ ", b" ")
    return (min(t_ns for t_ns in truth.find(login) if t_ns > starting) - starting) / 1e9


def attempts(lab: Lab, run: int = 1) -> list[Attempt]:
    """The successful ones."""
    with open_store(lab.environ["LAB_DB"]) as store:
        return [attempt for attempt in store.attempts(run) if attempt.ok]


def assert_cycles(lab: Lab, board: BoardType, cycles: int, media: tuple[str, ...]) -> None:
    """Each cycle of each medium has a sample within its ± of the truth, its medium from every source, all of its stages, and
    clocks that agree.
    """
    samples = lab.samples()
    assert sorted((s.params["medium"], s.cycle) for s in samples) == sorted(
        (medium, cycle) for medium in media for cycle in range(1, cycles + 1)
    )
    flags = {flag for sample in samples for flag in sample.flags}
    assert not flags & {"clock_disagrees", "medium_unverified", "console_overrun"}, flags
    found = attempts(lab)
    for attempt in found:
        medium = attempt.params["medium"]
        assert attempt.details["medium_seen"] == dict.fromkeys(SOURCES, medium)
        assert tuple(moment.name for moment in attempt.moments) == STAGES
        assert attempt.details["printk_fit"] is not None
    assert_true(numbers(lab, board), lambda: more_numbers(lab, board))


def numbers(lab: Lab, board: BoardType) -> list[Number]:
    """The latest run's boot times, each with its ± and the truth."""
    with open_store(lab.environ["LAB_DB"]) as store:
        found = [attempt for attempt in store.attempts(store.runs()[0].id) if attempt.ok]
    starts = {
        (a.params["medium"], a.cycle): next(m.t_ns for m in a.moments if m.name == "starting_kernel") for a in found
    }
    truth = lab.bench.truth()
    return [
        (s.value, s.uncertainty, boot_of(truth, board, starts[s.params["medium"], s.cycle])) for s in lab.samples()
    ]


def more_numbers(lab: Lab, board: BoardType) -> list[Number]:
    """Measure some boots more, from the faster medium."""
    process = lab.pytest("--lab-cycles", str(MORE), "--lab-medium", list(board.media)[-1])
    assert process.wait(MORE * CYCLE_S) == pytest.ExitCode.OK, lab.log
    return numbers(lab, board)


def measure(lab: Lab, cycles: int, board_type: str) -> None:
    """A run over all media; it must complete."""
    board = boards.load(board_type)
    process = lab.pytest("--lab-cycles", str(cycles))
    assert process.wait(cycles * len(board.media) * CYCLE_S) == pytest.ExitCode.OK, lab.log
    assert_cycles(lab, board, cycles, tuple(board.media))


def environment(lab: Lab) -> Path:
    """The labgrid environment of the lab's board."""
    return lab.bench.folder / "env.yaml"
