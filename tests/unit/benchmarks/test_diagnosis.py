"""Parts of a boot from the kernel's log, U-Boot's bootstage and systemd-analyze, and which of them differ."""

from __future__ import annotations

import math
import random
import re

import pytest
from attrs import evolve
from scipy.stats import t as student

from lab.benchmarks.diagnosis.kernel import BETWEEN, kernel_parts, user_space_start
from lab.benchmarks.diagnosis.parts import (
    BOOTSTAGE,
    INITCALLS,
    MODULES,
    SHORT,
    STAGES,
    UNITS,
    BootPart,
    PartChange,
    PartTime,
    boots_needed,
    changes,
    changes_of_runs,
    common_ratio,
    documents,
    from_documents,
    likeliest,
    over_boots,
    sum_parts,
)
from lab.benchmarks.diagnosis.parts import _two_sided as two_sided
from lab.benchmarks.diagnosis.reports import uboot_parts, user_space
from lab.errors import TestTransientError

LOG = """\
[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]
[    0.010000] calling  early_init+0x0/0x1c @ 1
[    0.013000] initcall early_init+0x0/0x1c returned 0 after 4000 usecs
[    0.500000][    T1] calling  sdhci_am654_driver_init+0x0/0x1c @ 1
[    0.520000] probe of fa10000.mmc returned 0 after 15000 usecs
[    0.521000] probe of sound returned -517 after 500 usecs
[    0.560000][    T1] initcall sdhci_am654_driver_init+0x0/0x1c returned 0 after 60000 usecs
[    0.600000] probe of sound returned 19 after 1500 usecs
[    1.000000] Run /sbin/init as init process
[    2.000000] calling  lpm_init+0x0/0x1000 [boardlab_lpm] @ 82
[    2.050000] initcall lpm_init+0x0/0x1000 [boardlab_lpm] returned 0 after 50011 usecs
""".splitlines()


def own(parts: list[BootPart]) -> dict[tuple[str, str], float]:
    return {(part.section, part.name): round(part.own_s, 6) for part in sum_parts(parts)}


def test_an_initcall_is_timed_by_its_stamps_without_the_probes_in_it() -> None:
    assert own(kernel_parts(LOG)) == {
        (INITCALLS, "(before the first initcall)"): 0.01,
        (INITCALLS, "early_init"): 0.003,
        (INITCALLS, "sdhci_am654_driver_init"): 0.0445,
        (INITCALLS, "probe fa10000.mmc"): 0.015,
        (INITCALLS, "probe sound"): 0.002,
        (INITCALLS, BETWEEN): 0.9255,
        (MODULES, "lpm_init [boardlab_lpm]"): 0.05,
    }


def test_a_probe_whose_time_is_rounded_up_is_still_inside_its_initcall() -> None:
    lines = [line.replace("15000 usecs", "24000 usecs") for line in LOG]
    assert own(kernel_parts(lines))[INITCALLS, "sdhci_am654_driver_init"] == pytest.approx(0.0395)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (LOG[1:], "lost its beginning"),
        (LOG[:1] + LOG[-3:-2], "initcall_debug"),
        ([line for line in LOG if "Run" not in line], "no start of init"),
    ],
)
def test_a_log_that_is_not_whole_is_refused(lines: list[str], reason: str) -> None:
    with pytest.raises(TestTransientError, match=reason):
        kernel_parts(lines)


def test_a_kernel_that_does_not_say_what_it_runs_starts_init_when_it_frees_its_own_memory() -> None:
    silent = [line for line in LOG if "Run" not in line]
    freed = "[    1.000000] Freeing unused kernel memory: 1024K"
    assert own(kernel_parts([*silent, freed]))[INITCALLS, BETWEEN] > 0
    systemd = "[    1.200000] systemd[1]: systemd 230 running in system mode."
    assert user_space_start([*silent, freed, systemd]) == (1.0, 1.2)
    assert user_space_start([*silent, systemd]) == (1.2, 1.2)


def test_amlogic_s_stamps_are_read() -> None:
    assert own(kernel_parts([re.sub(r"(\d{6})\]", r"\1@0]", line, count=1) for line in LOG])) == own(kernel_parts(LOG))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["[    0.000000] Linux version 6.1", "[    0.100000] calling  0xc0b00f34 @ 1"], "CONFIG_KALLSYMS"),
        (["Linux version 6.1", "calling  early_init+0x0/0x4 @ 1"], "have no times"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused_with_its_own_reason(lines: list[str], reason: str) -> None:
    with pytest.raises(TestTransientError, match=reason):
        kernel_parts(lines)


def test_marks_of_bootstage_without_a_name_are_kept() -> None:
    report = """\
Timer summary in microseconds (4 records):
       Mark    Elapsed  Stage
          0          0  reset
    575,000    575,000
  1,644,000  1,069,000  board_init_r
  1,744,000    100,000
""".splitlines()
    parts = own(uboot_parts(report))
    assert parts[BOOTSTAGE, "mark without a name"] == 0.675
    assert sum(parts.values()) == pytest.approx(1.744)


def test_bootstage_is_read_as_distances_with_accumulated_times_apart() -> None:
    report = """\
Timer summary in microseconds (11 records):
       Mark    Elapsed  Stage
          0          0  reset
    575,000    575,000  board_init_f
  1,644,000  1,069,000  id=64

Accumulated time:
             2,000  dm_r
""".splitlines()
    assert own(uboot_parts(report)) == {
        (BOOTSTAGE, "board_init_f"): 0.575,
        (BOOTSTAGE, "id=64"): 1.069,
        (BOOTSTAGE, "dm_r (accumulated)"): 0.002,
        (BOOTSTAGE, SHORT): 0.0,
    }
    assert uboot_parts(["Unknown command 'bootstage' - try 'help'"]) == []


def test_systemd_is_read_without_devices_and_impossible_times() -> None:
    found = user_space(
        ["Startup finished in 2.345s (kernel) + 1min 9.608s (userspace) = 1min 11.953s"],
        [
            " 1min 2.345s systemd-networkd-wait-online.service",
            "        876ms weston.service",
            "       1.830s dev-mmcblk1p2.device",
            "    584542y 2w ntp.service",
        ],
        [
            "multi-user.target @1min 9.608s",
            "└─weston.service @8.100s +876ms",
            "  └─basic.target @8.000s",
        ],
        [
            *("Id=weston.service", "InactiveExitTimestampMonotonic=99000000", ""),
            *("InactiveExitTimestampMonotonic=6845000", "Id=systemd-networkd-wait-online.service", ""),
            *("Id=-.mount", "InactiveExitTimestampMonotonic="),
        ],
    )
    assert found.shares == pytest.approx({"kernel": 2.345, "userspace": 69.608})
    assert [(part.name, part.start_s, part.own_s) for part in found.parts] == [
        ("systemd-networkd-wait-online.service", pytest.approx(4.5), pytest.approx(62.345)),
        ("weston.service", 8.1, 0.876),
    ]
    assert found.chain == ("multi-user.target", "weston.service", "basic.target")


def test_parts_survive_the_store() -> None:
    parts = sum_parts(kernel_parts(LOG))
    assert own(from_documents([*documents(parts), "nonsense", ["x", 1]])) == own(parts)


# --- Differences ---


def boots(dice: random.Random, changed: dict[str, float], count: int = 3) -> list[list[BootPart]]:
    """Boots of 200 parts between 0.6 ms and 100 ms with 2 % noise; `changed`: seconds that are added."""
    found = []
    for _ in range(count):
        parts = []
        for number in range(200):
            name = f"part_{number}"
            mean = 0.0006 * 1.026**number + changed.get(name, 0.0)
            parts.append(BootPart(INITCALLS, name, number * 0.01, mean, max(0.0, dice.gauss(mean, 0.02 * mean))))
        found.append([part for part in parts if part.own_s > 0])
    return found


def test_only_what_differs_is_named_with_hundreds_of_parts() -> None:
    right = wrong = 0
    for seed in range(60):
        dice = random.Random(seed)
        before, now = over_boots(boots(dice, {})), over_boots(boots(dice, {"part_100": 0.05}))
        names = [change.name for change in changes(before, now)]
        right += names[:1] == ["part_100"]
        wrong += len(names) > 1
    assert right == 60
    assert wrong <= 6, "5 % of 60, and what chance adds"


@pytest.mark.parametrize(("deviation", "wanted"), [(0.02, 3), (0.25, 6), (0.8, 9)])
def test_parts_that_vary_need_more_boots(deviation: float, wanted: int) -> None:
    dice = random.Random(1)
    noisy = [
        [evolve(part, own_s=part.length_s * math.exp(dice.gauss(0, deviation))) for part in boot]
        for boot in boots(dice, {})
    ]
    assert boots_needed(noisy, 3) == wanted
    assert boots_needed([[]] * 3, 3) == 3


def test_a_run_s_own_offset_is_no_change_of_a_part() -> None:
    """Each part of each run is off by 3 %, in all its boots."""

    def run(dice: random.Random, slower: dict[str, float]) -> list[PartTime]:
        offsets = {f"part_{number}": dice.gauss(1.0, 0.03) for number in range(200)}
        made = boots(dice, slower)
        return over_boots(
            [[evolve(part, own_s=part.own_s * offsets[part.name]) for part in boot] for boot in made],
        )

    wrong = right = 0
    for seed in range(40):
        dice = random.Random(seed)
        before, now = ([run(dice, slower) for _ in range(4)] for slower in ({}, {"part_100": 0.05}))
        names = [change.name for change in changes_of_runs(before, now)]
        right += names[:1] == ["part_100"]
        wrong += len(names) > 1
    assert right == 40
    assert wrong <= 5, "5 % of 40, and what chance adds"


def test_what_all_parts_have_in_common_is_no_change_of_one_nor_is_a_wait_that_stays() -> None:
    dice = random.Random(7)
    before = over_boots([[*boot, BootPart(INITCALLS, "wait", 9.0, 0.1, 0.1)] for boot in boots(dice, {})])
    slower = [[evolve(part, own_s=part.own_s * 1.4) for part in boot] for boot in boots(dice, {"part_100": 0.05})]
    now = over_boots([[*boot, BootPart(INITCALLS, "wait", 9.0, 0.1, 0.1)] for boot in slower])
    assert [each.name for each in changes(before, now)] == ["part_100"]
    assert common_ratio(before, now) == pytest.approx(1.4, abs=0.02)
    assert common_ratio(before[:5], now[:5]) == 1.0, "too few parts to say"


def test_the_likeliest_part_is_told_where_the_noise_hides_all() -> None:
    """Stalls of a busy host: each part of each boot takes up to eight times as long."""
    dice = random.Random(3)

    def stalled(slower: dict[str, float]) -> list[PartTime]:
        return over_boots(
            [[evolve(part, own_s=part.own_s * 8 ** dice.random()) for part in boot] for boot in boots(dice, slower)]
        )

    found = [likeliest(stalled({}), stalled({"part_20": 0.05})) for _ in range(10)]
    assert sum(part is not None and part.name == "part_20" for part in found) >= 8


def test_the_probability_is_that_of_student_s_t_and_never_smaller() -> None:
    for degrees in (5, 8, 20):
        for probability in (0.05, 1e-3, 1e-4):
            ratio = two_sided(float(student.isf(probability / 2, degrees)), degrees) / probability
            assert 1.0 <= ratio < 1.2


def change(before: list[BootPart], now: list[BootPart]) -> PartChange:
    (only,) = changes(over_boots([before] * 3), over_boots([now] * 3))
    return only


def test_what_is_new_gone_or_moved_is_said_so() -> None:
    driver, module = (
        BootPart(INITCALLS, "foo_init", 1.0, 0.04, 0.04),
        BootPart(MODULES, "foo_init [foo]", 3.0, 0.05, 0.05),
    )
    other = BootPart(UNITS, "weston.service", 1.0, 0.2, 0.2)
    assert change([driver], [driver, other]).before_s is None
    assert change([driver, other], [driver]).now_s is None
    moved = change([other, driver], [other, module])
    assert (moved.section, moved.moved_from) == (MODULES, INITCALLS)
    assert moved.difference_s == pytest.approx(0.01)


def test_stages_are_not_compared_beside_their_parts() -> None:
    slow = [BootPart(STAGES, "Kernel", 0.0, length, length) for length in (1.0, 2.0)]
    assert changes(over_boots([slow[:1]] * 3), over_boots([slow[1:]] * 3)) == []
