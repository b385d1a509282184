"""The trace of a boot's tree has the form that the Perfetto UI reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.diagnosed_boot import PARTS, diagnosed

from lab.cli import main
from lab.judge.boot_breakdown import BootBreakdown
from lab.judge.boottrace import trace
from lab.results import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        yield store


@pytest.fixture
def diagnosis(store: Store) -> BootBreakdown:
    return diagnosed(store, PARTS, chain=["first.service", "second.service"])


def nested(events: list[dict[str, Any]]) -> bool:
    """Return whether each event is within the ones that are open when it begins, as the form asks for."""
    open_ends: list[float] = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_ends and open_ends[-1] <= event["ts"] + 1e-3:
            open_ends.pop()
        if open_ends and event["ts"] + event["dur"] > open_ends[-1] + 1e-3:
            return False
        open_ends.append(event["ts"] + event["dur"])
    return True


def test_the_trace_has_the_fields_of_the_trace_event_format(diagnosis: BootBreakdown) -> None:
    document = json.loads(json.dumps(trace([diagnosis])))
    assert document["displayTimeUnit"] == "ms"
    kinds = {event["ph"] for event in document["traceEvents"]}
    assert kinds == {"M", "X"}
    for event in document["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} == event.keys()
            assert event["ts"] >= 0
            assert event["dur"] > 0
        else:
            assert event["name"] in {"process_name", "thread_name"}
            assert isinstance(event["args"]["name"], str)


def test_parts_nest_on_their_thread_and_stand_where_the_tree_has_them(diagnosis: BootBreakdown) -> None:
    events = [event for event in trace([diagnosis])["traceEvents"] if event["ph"] == "X"]
    threads = {event["tid"] for event in events}
    assert all(nested([event for event in events if event["tid"] == thread]) for thread in threads)
    assert diagnosis.tree is not None
    placed = {path[-1]: node for path, node in diagnosis.tree.all() if node.placed}
    by_name = {event["name"]: event for event in events}
    for name in ("sdhci_init", "probe mmc", "first.service", "Power on to SPL", "Kernel, from its start to init"):
        assert by_name[name]["ts"] == pytest.approx(placed[name].start_s * 1e6, abs=1)
        assert by_name[name]["args"]["length [ms]"] == pytest.approx(placed[name].length_s * 1e3, abs=0.01)
    assert by_name["Kernel, from its start to init"]["args"]["(between initcalls) [ms]"] == pytest.approx(350.0, abs=1)


def test_units_in_parallel_are_on_threads_of_their_own(store: Store) -> None:
    parts = [part for part in PARTS if part.name != "parallel.service"]
    found = diagnosed(store, parts, chain=["second.service"])
    events = trace([found])["traceEvents"]
    (beside,) = [event for event in events if event["name"] == "first.service"]
    assert beside["tid"] > 1
    assert {"in parallel, 1", "boot"} <= {event["args"]["name"] for event in events if event["ph"] == "M"}


def test_the_command_writes_it(tmp_path: Path, store: Store, diagnosis: BootBreakdown) -> None:
    database, file = f"sqlite:///{tmp_path}/results.db", tmp_path / "boot.json"
    assert main(["results", "where", str(diagnosis.run), "--db", database, "--perfetto", str(file)]) == 0
    assert json.loads(file.read_text()) == json.loads(json.dumps(trace([diagnosis])))
    assert main(["results", "where", str(diagnosis.run), "--db", database, "--perfetto", str(tmp_path)]) == 2
