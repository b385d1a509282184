"""Whether a kernel was quiet: told by what it printed, and never of a talking one that lost characters."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import bare_logs
from support.torture_boots import good
from torture_boot import GoodBoot, answer_of, events
from torture_campaign import rewatcher

from lab import boards
from lab.benchmarks.boot.evidence import FEW_LINES, MANY_LINES
from lab.boards import NORMAL, BoardType
from lab.errors import ConfigurationError
from lab.metrics import Flag, SampleRecord
from lab.metrics.catalogue import HEADLINE_NAMES
from lab.run.check.bare_log import read
from lab.run.check.findings import examine
from lab.run.rewatch import Rewatcher

QUIET = bare_logs.of_flow("quiet")
AT_START = QUIET.index("Starting kernel ...") + 1


@cache
def watched(board: str) -> tuple[GoodBoot, Rewatcher]:
    """A talking boot, and what watches its mutations."""
    boot = good(board, "sd" if board == "am62xx_sk" else "nand")
    return boot, rewatcher(boot)


def headline(tmp_path: Path, lines: list[str], board: BoardType | None = None) -> SampleRecord:
    """The boot's number."""
    board = board or boards.load("am62xx_sk")
    path = tmp_path / "boot.log"
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    result = examine(read(path, board), board).result
    assert result.error is None, result.error
    return next(sample for sample in result.samples if sample.metric in HEADLINE_NAMES)


def told(sample: SampleRecord) -> tuple[str, bool]:
    """Its flow, and whether it is sure."""
    return sample.params.get("flow", NORMAL), Flag.FLOW_UNVERIFIED not in sample.flags


def says(count: int, text: str = "omap-mailbox 29000000.mailbox: failed to get a channel") -> list[str]:
    """A quiet kernel's boot with so many lines of the kernel in it."""
    more = [f"[    {1 + number / 1000:.6f}] {text}" for number in range(count)]
    return [*QUIET[:AT_START], *more, *QUIET[AT_START:]]


@pytest.mark.parametrize(
    ("flow", "metric"),
    [
        ("normal", "boot.time"),
        ("quiet", "boot.time"),
        ("sbl", "boot.time"),
        ("sbl_quiet", "boot.time"),
        ("falcon", "boot.spl_to_prompt"),
        ("falcon_quiet", "boot.spl_to_prompt"),
        ("efi", "boot.efi_to_prompt"),
        ("efi_quiet", "boot.efi_to_prompt"),
    ],
)
def test_each_flow_has_its_number_and_its_name(tmp_path: Path, flow: str, metric: str) -> None:
    sample = headline(tmp_path, bare_logs.of_flow(flow))
    assert (sample.metric, told(sample)) == (metric, (flow, True))


@pytest.mark.parametrize(
    ("count", "flow"),
    [
        (0, ("quiet", True)),
        (FEW_LINES, ("quiet", True)),
        (FEW_LINES + 1, (NORMAL, False)),
        (MANY_LINES, (NORMAL, False)),
        (MANY_LINES + 1, (NORMAL, True)),
    ],
)
def test_a_quiet_kernel_prints_few_lines_and_in_between_nobody_knows(
    tmp_path: Path, count: int, flow: tuple[str, bool]
) -> None:
    assert told(headline(tmp_path, says(count))) == flow


def test_one_line_of_a_talking_kernel_is_enough(tmp_path: Path) -> None:
    assert told(headline(tmp_path, says(1, "VFS: Mounted root (ext4 filesystem) on device 179:98."))) == (NORMAL, True)


def test_a_quiet_boot_that_lost_characters_says_that_it_may_be_none(tmp_path: Path) -> None:
    torn = "[    1.000000] omap-mailbox 290000[    1.500000] k3-ringacc: failed"
    assert told(headline(tmp_path, [*QUIET[:AT_START], torn, *QUIET[AT_START:]])) == ("quiet", False)


def test_a_board_type_that_knows_no_line_of_a_talking_kernel_has_no_quiet_flow(tmp_path: Path) -> None:
    board = boards.load("am62xx_sk")
    bare = evolve(board, moments=[m for m in board.moments if m.name not in {"first_printk", "init"}], flows={})
    assert told(headline(tmp_path, QUIET, bare)) == (NORMAL, True)


@pytest.mark.parametrize("name", ["quiet", "falcon_quiet"])
def test_a_board_type_cannot_take_the_name_of_a_quiet_flow(name: str) -> None:
    board = boards.load("am62xx_sk")
    with pytest.raises((ConfigurationError, ValueError), match="quiet kernel"):
        evolve(board, flows={name: board.flows["falcon"]})


@pytest.mark.parametrize("board", ["am62xx_sk", "am43xx-gpevm"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.floats(0, 1), size=st.floats(0, 1), more=st.sets(st.floats(0, 1), max_size=3))
def test_a_talking_kernel_that_loses_a_span_of_its_lines_is_never_taken_for_a_quiet_one(
    board: str, first: float, size: float, more: set[float]
) -> None:
    """All but its last line at most: with all of them lost, and no sign of it, nothing differs from a quiet boot."""
    boot, watcher = watched(board)
    begin, end = boot.kernel_at, boot.line_of(boot.tape.data.rindex(b": configuring for"))
    lost = boot.tape.mark < 0
    start = begin + int(first * (end - begin))
    lost[start : start + int(size * (end - start))] = True
    lost[[begin + int(at * (end - begin - 1)) for at in more]] = True
    result = watcher.rewatch(events(boot.tape.without(~lost)), answer_of(boot.prompt, int(boot.tape.t_ns[-1])))
    for sample in result.samples:
        flow, is_sure = told(sample)
        assert flow == NORMAL or not is_sure
