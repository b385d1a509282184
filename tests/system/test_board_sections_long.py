"""Sections of the guide on the QEMU boards with SPL, with Debian's programs for armhf and riscv64."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import qemu_boards
from support.measuring_lab import Lab, Number, assert_true, running_lab

from lab import boards
from lab.metrics import Flag
from lab.results import Attempt, open_store
from lab.virtual.qemu import cable

pytestmark = pytest.mark.soak

DEADLINE_S = 5400
CHAPTERS = (
    *("realtime", "ethernet", "system_benchmarks", "crypto", "emmc", "mmcsd"),
    *("uboot_emmc", "uboot_mmcsd", "uboot_reads"),
)
TCP, UDP = {"iperf3": 2}, {"iperf3-udp": 2 * 5 * 3}
ON_THE_CABLE = TCP.keys() | UDP.keys()
FIO = 2 * 4 * 2
OPENSSL = 13 * 7
DD = 5 * 6
EVERYWHERE = {
    "cyclictest": 6,
    **TCP,
    "sysbench": 3,
    "stress-ng": 5,
    "openssl": OPENSSL,
    "sd-fio": FIO,
    "uboot-read": 2,
}
# section -> how many numbers it has
SECTIONS = {
    "bpim2u": {**EVERYWHERE, "emmc-fio": FIO, "emmc-ext4-dd": DD},
    # The Ethernet that QEMU models for the other one does not survive as much UDP as the tester can send.
    "sifive_u": {**EVERYWHERE, **UDP},
}
MEDIA = {"emmc-fio": "emmc", "emmc-ext4-dd": "emmc", "sd-fio": "sd"}
# Debian's U-Boots have no command `time`; the console's stamps time what they read.
SKIPPED = {"bpim2u": ["uboot-emmc", "uboot-sd"], "sifive_u": ["uboot-sd"]}
DEVICES = {"bpim2u": "{sd: mmc 0, emmc: mmc 1}", "sifive_u": "{sd: mmc 0, spi_nor: sf}"}
LOADED = "loaded.bin"
LOADED_MIB = 16
REPEATS = 3
# As the UART sent them, lines and all.
SPANS = {
    "mmc": (rb"count \d+ \.\.\. ", rb"count \d+ \.\.\. \d"),
    "sf": (rb"size 0x1000000", rb"SF: "),
    "tftp": (rb"Loading: ", rb"\nd"),
}


def measured(lab: Lab) -> dict[str, list[Attempt]]:
    """The latest run's attempts, by section."""
    found: dict[str, list[Attempt]] = {}
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        assert run.status == "completed", lab.log
        for attempt in store.attempts(run.id):
            found.setdefault(attempt.params["section"], []).append(attempt)
    return found


@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("board_type", qemu_boards.TYPES)
def test_what_debian_has_is_measured_from_the_right_medium(board_type: str, tmp_path: Path) -> None:
    with running_lab(tmp_path, *qemu_boards.up_words(board_type), "--tools") as lab:
        env = qemu_boards.environment(lab)
        env.write_text(env.read_text().replace("benchmarks:\n", "benchmarks:\n        seconds: 1\n", 1))
        expected = SECTIONS[board_type]
        if cable.problem():
            expected = {name: count for name, count in expected.items() if name not in ON_THE_CABLE}
        chosen = " or ".join(f"[{name}]" for name in [*expected, *SKIPPED[board_type]])
        options = ["--lab-destructive", "--lab-retries", "1", "--lab-repeats", "1", "-rs", "-k", chosen]
        chapters = [f"tests_perf/test_{chapter}.py" for chapter in CHAPTERS]
        process = lab.pytest(*chapters[1:], *options, measures=f"test_{CHAPTERS[0]}.py")
        assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    found = {name: [s for attempt in each for s in attempt.samples] for name, each in measured(lab).items()}
    assert {name: len(samples) for name, samples in found.items()} == expected
    skipped = re.findall(r"SKIPPED \[(\d+)\].*U-Boot has no command `time`; build it with CONFIG_CMD_TIME=y", lab.log)
    assert sum(map(int, skipped)) == len(SKIPPED[board_type])
    for name, samples in found.items():
        assert all(Flag.SIMULATED in sample.flags for sample in samples)
        assert all(sample.uncertainty > 0 for sample in samples), name
        assert all(sample.value > 0 for sample in samples if not sample.metric.endswith((".loss", ".cpu_load"))), name
    for name, medium in MEDIA.items():
        assert {sample.params["medium"] for sample in found.get(name, [])} <= {medium}


@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("board_type", qemu_boards.TYPES)
def test_what_u_boot_reads_and_loads_is_timed_as_its_uart_says_it(board_type: str, tmp_path: Path) -> None:
    with running_lab(tmp_path, *qemu_boards.up_words(board_type)) as lab:
        (lab.bench.folder / lab.bench.board.name / "tftp" / LOADED).write_bytes(bytes(LOADED_MIB << 20))
        env = qemu_boards.environment(lab)
        options = f"    options:\n      benchmarks: {{uboot: {DEVICES[board_type]}, tftp: {LOADED}}}\n"
        env.write_text(env.read_text().replace("  main:\n", f"  main:\n{options}", 1))
        _read(lab)

        def more() -> list[Number]:
            _read(lab)
            return _times(lab)

        assert_true(_times(lab), more)


def _read(lab: Lab) -> None:
    """A run of what U-Boot reads and loads."""
    process = lab.pytest("--lab-repeats", str(REPEATS), "--lab-retries", "1", measures="test_uboot_reads.py")
    assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log


def _times(lab: Lab) -> list[Number]:
    """The latest run's, each with its ± and what the UART's log says, in seconds."""
    samples = [s for each in measured(lab).values() for attempt in each for s in attempt.samples]
    assert len(samples) == REPEATS * len(("sd", "its other medium", "tftp"))
    truth, size_kib, media = lab.bench.truth(), LOADED_MIB << 10, boards.load(lab.bench.board.type).media
    found = []
    for sample in samples:
        begin, end = SPANS[media[sample.params["medium"]].uboot if "medium" in sample.params else "tftp"]
        stops = truth.find(end)
        spans = [(next(t for t in stops if t > start) - start) / 1e9 for start in truth.find(begin)]
        took = size_kib / sample.value
        found.append((took, took * sample.uncertainty / sample.value, min(spans, key=lambda s: abs(s - took))))
    return found
