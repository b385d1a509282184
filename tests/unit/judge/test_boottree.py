"""The tree of a boot over all clocks: it adds up, and each part has its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.diagnosed_boot import PARTS, diagnosed
from support.facts import missing_facts
from support.recorded_run import START

from lab.benchmarks.diagnosis.parts import INITCALLS, UNITS, BootPart, documents
from lab.judge.boot_breakdown import OF, BootBreakdown, read_breakdowns, rows, tree_rows
from lab.judge.boottree import SAVED, UNEXPLAINED, BootNode
from lab.report.page import _flames
from lab.results import AttemptRecord, Store, open_store
from lab.results.records import DIAGNOSIS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        yield store


def tree(found: BootBreakdown) -> BootNode:
    assert found.tree is not None
    return found.tree


def adds_up(node: BootNode) -> bool:
    """Return whether parts are together as long as their whole.

    Those of an initcall: less its own time.
    """
    took_s = sum(part.length_s for part in node.parts)
    whole = node.section != INITCALLS and bool(node.parts)
    return (abs(took_s - node.length_s) if whole else took_s - node.length_s) < 1e-9 and all(map(adds_up, node.parts))


def times(found: BootBreakdown) -> dict[tuple[str, ...], tuple[float, float]]:
    return {path[1:]: (round(node.start_s, 4), round(node.length_s, 4)) for path, node in tree(found).all()}


def test_each_part_has_its_place_on_the_host_s_clock_and_all_add_up(store: Store) -> None:
    found = diagnosed(store, PARTS)
    assert adds_up(tree(found))
    kernel, user = "Kernel, from its start to init", "User space"
    its = times(found)
    assert {path: time for path, time in its.items() if UNEXPLAINED not in path} == {
        (): (0.0, 7.0),
        ("Power on to SPL",): (0.0, 0.2),
        ("SPL",): (0.2, 0.8),
        ("SPL", "board_init_f"): (0.8, 0.2),
        ("U-Boot",): (1.0, 0.5),
        ("U-Boot", "board_init_f"): (1.0, 0.1),
        ("U-Boot", "main_loop"): (1.1, 0.4),
        ("Kernel load",): (1.5, 1.5),
        (kernel,): (3.0, 1.0),
        (kernel, "(before the kernel's clock)"): (3.0, 0.1),
        (kernel, "(before the first initcall)"): (3.1, 0.1),
        (kernel, "(between initcalls)"): (3.2, 0.35),
        (kernel, "sdhci_init"): (3.3, 0.3),
        (kernel, "sdhci_init", "probe mmc"): (3.31, 0.2),
        (kernel, SAVED): (3.1, 0.15),  # init began at 0.9 s of the kernel's clock, and at 0.75 s without its lines
        (user,): (4.0, 3.0),
        (user, "late_init [late]"): (4.45, 0.05),
        (user, "first.service"): (4.52, 0.5),
        (user, "second.service"): (5.02, 0.5),  # less what both share
        (user, "getty, to its prompt"): (6.0, 1.0),
    }
    assert its[user, UNEXPLAINED][1] == 0.95
    clocks = {each.clock.split()[0]: each for each in found.clocks}
    assert {name: round(each.at_s, 4) for name, each in clocks.items()} == {
        "U-Boot": 0.8,
        "kernel": 3.1,
        "systemd": 4.02,
    }
    assert [clocks[name].uncertainty_s for name in clocks] == pytest.approx([0.0004, 0.0007, 0.02])


def test_units_off_the_critical_chain_are_beside_it_at_their_time(store: Store) -> None:
    others = (
        BootPart(UNITS, "long.service", 0.4, 2.0, 2.0),
        BootPart(UNITS, "during.service", 0.9, 0.3, 0.3),
        BootPart(UNITS, "late.service", 3.5, 0.1, 0.1),  # begins after the prompt
    )
    without = diagnosed(store, PARTS)
    found = diagnosed(store, [*PARTS, *others], chain=["first.service", "second.service"])
    assert adds_up(tree(found))
    beside = {("User space", f"{name} (in parallel)") for name in ("long.service", "during.service")}
    assert times(found).keys() - times(without).keys() == beside
    assert times(found)["User space", "long.service (in parallel)"] == (4.42, 2.0)
    assert {path: time for path, time in times(found).items() if path not in beside} == times(without)
    assert [row[0].strip() for row in tree_rows(found)][-2:] == [name for _, name in sorted(beside, reverse=True)]
    (figure,) = [each for each in _flames([found], 2) if each.title.endswith(": User space")]
    assert [[box.text.split(":")[0] for box in row] for row in figure.rows[1:]] == [
        ["long.service (in parallel)"],
        ["during.service (in parallel)"],
    ]


def test_parts_of_slower_boots_are_drawn_shorter_and_it_is_said(store: Store) -> None:
    slow = [*PARTS, BootPart(INITCALLS, "slow_init", 0.6, 1.0, 1.0)]
    found = diagnosed(store, slow)
    assert adds_up(tree(found))
    assert any("drawn shorter" in problem for problem in found.problems)
    assert UNEXPLAINED not in [part.name for part in tree(found).parts[4].parts]


@pytest.mark.parametrize(("own_s", "whole_s", "length_s"), [(9.0, 9.0, 2.0), (5.0, 7.0, 0.0)])
def test_a_moment_of_the_user_is_in_the_tree(store: Store, own_s: float, whole_s: float, length_s: float) -> None:
    found = diagnosed(store, PARTS, own_s)
    assert adds_up(tree(found))
    assert times(found)[()] == (0.0, whole_s)
    assert times(found)["moment app",][1] == length_s


def test_a_quiet_kernel_s_boot_has_one_part_from_its_start_to_the_prompt(store: Store) -> None:
    found = diagnosed(store, PARTS, quiet=True)
    assert adds_up(tree(found))
    assert times(found)["Kernel and user space",] == (3.0, 4.0)
    assert times(found)["Kernel and user space", "sdhci_init"][1] == 0.3
    assert [each.clock for each in found.clocks] == ["U-Boot (bootstage)"]


def test_two_runs_stand_side_by_side_by_their_place(store: Store) -> None:
    before, now = diagnosed(store, PARTS), diagnosed(store, [*PARTS, BootPart(INITCALLS, "new_init", 0.6, 0.1, 0.1)])
    beside = {row[0].strip(): row[1:] for row in tree_rows(now, before)}
    assert beside["sdhci_init"][2:] == ["300.0", "+0.0"]
    assert beside["new_init"][2:] == ["", ""]
    whole, first = [row[0] for row in tree_rows(now)][:2]
    assert not missing_facts(whole, "Power on", "last moment")
    assert first == "  Power on to SPL"


def test_diagnostic_boots_whose_run_has_no_good_boot_have_parts_and_no_tree(store: Store) -> None:
    run = store.run(diagnosed(store, PARTS).diagnosis)
    alone = store.begin_run("boot", run.board_type, run.board, "11.02", plan={}, provenance={})
    its = store.begin_run(DIAGNOSIS, run.board_type, run.board, "11.02", plan={}, provenance={OF: alone.id})
    document = {"boot_s": 4.0, "parts": documents(PARTS), "problems": []}
    record = AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", START, 20.0, details={DIAGNOSIS: document})
    store.record_attempt(its.id, record)
    (found,) = read_breakdowns(store, alone.id)
    assert (found.tree, tree_rows(found)) == (None, [])
    assert {title.split(",")[0] for title, _ in rows(found)} == {"U-Boot", "Kernel", "Modules", "Units"}
