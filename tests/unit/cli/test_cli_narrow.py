"""Every table fits 80 columns, over names as long as the store takes them, and every command makes its tables in one way."""

from __future__ import annotations

import ast
import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import boards
from lab.cli import doctor, main
from lab.cli.rails import answer_lines, watch_lines
from lab.console import terminal
from lab.console.recording import RecordingMeta
from lab.console.status import PortInfo, PortStatus, ServerStatus
from lab.farm.checks import Finding
from lab.host import process
from lab.jobs.queue import JobQueue, Order
from lab.rails.live import Now
from lab.rails.selftest import SensorCheck
from lab.results import AttemptRecord, SampleRecord, open_store
from lab.terminal import cells

ROOT = Path(__file__).resolve().parents[3]
LONG = ("a-board-with-quite-a-name " * 3).strip() + "_" + "x" * 900 + "测" * 40
COLUMNS = 80


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, its failures and a job, with the longest names everywhere."""
    path = tmp_path_factory.mktemp("long") / "results.db"
    with open_store(str(path)) as store:
        run = store.begin_run(LONG, LONG, LONG, LONG, plan={}, provenance={})
        for cycle in range(1, 12):
            params = {"medium": LONG, LONG: LONG}
            samples = (
                SampleRecord("boot.time", params, 1.5e9 + cycle / 7, 1e-4, frozenset({"simulated", "kernel_errors"})),
                SampleRecord("lpm.deep_sleep.energy", params, 1e-5 + cycle * 1e-7, 1e-6),
                SampleRecord("boot.stage", {**params, "stage": LONG}, 1e5, 1e-4),
            )
            good = cycle % 2 == 1
            end = ("ok", None, None) if good else (LONG, "board", True)
            at = dt.datetime.now(dt.UTC)
            store.record_attempt(run.id, AttemptRecord(cycle, 1, params, *end, "", at, 1.0, samples if good else ()))
        store.finish_run(run.id, "interrupted")
        jobs = JobQueue(store, process.identity(), process.has_died)
        jobs.start(jobs.enqueue(Order(LONG, LONG, (LONG,), LONG, LONG, 10**6)).id)
    return path


@pytest.fixture
def narrow(store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab's folder on a screen of 80 columns."""
    (tmp_path / "envs").mkdir()
    name = "env-" + "e" * 200 + ".yaml"
    strategy = f"targets: {{main: {{drivers: [BoardStrategy: {{board: '{LONG}', board_type: '{LONG}'}}]}}}}\n"
    (tmp_path / "envs" / name).write_text(strategy)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LAB_DB", str(store_path))
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    return tmp_path


def widest(lines: Iterator[str] | list[str]) -> int:
    return max(map(cells, lines))


@pytest.mark.parametrize(
    ("words", "before"),  # lines before the first table, which are text
    [
        (["results", "list"], 0),
        (["results", "show", "1"], 2),
        (["env", "list"], 0),
        (["boards"], 0),
        (["virtual", "faults"], 0),
        (["status"], 2),
        (["jobs", "list"], 0),
    ],
)
def test_what_a_command_prints_fits(
    narrow: Path, capsys: pytest.CaptureFixture[str], words: list[str], before: int
) -> None:
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > before + 1
    assert widest(lines[before:]) <= COLUMNS


def test_the_ports_of_a_server_fit(narrow: Path) -> None:
    meta = RecordingMeta(name=LONG, device=LONG, speed_bd=115200, adapter_latency_ns=0, fifo_bytes=1, scheduling_ns=0)
    errors = {"overrun": 2**63, "frame": 2**63}
    info = PortInfo(meta, LONG, 2**63)
    port = PortStatus(info, LONG, 2**63, 9, 1e9, 99, os.getpid(), "", 9**9, 9**9, errors, 10**15, LONG, LONG)
    lines = terminal.status_lines(ServerStatus(1, "", "", "", [port]))
    assert widest(lines[1:]) <= COLUMNS


def test_the_rails_fit(narrow: Path) -> None:
    assert widest(watch_lines([Now(LONG, -1e9, 1e9, LONG)])) <= COLUMNS
    check = SensorCheck(where=LONG, rail=LONG, expected_v=1.25, volts=1e4, shunt_uv=1e9, verdict=LONG, good=False)
    assert widest(answer_lines([check])) <= COLUMNS


def test_what_a_doctor_finds_fits(narrow: Path) -> None:
    found = [Finding(LONG, LONG, level, LONG) for level in ("ok", "doubtful", "bad")]
    assert widest(doctor.lines(found)) <= COLUMNS


def test_board_types_have_names_that_fit_a_column() -> None:
    assert max(map(len, boards.names())) < 20


def imported(tree: ast.AST) -> set[str]:
    """What a module imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def padded(tree: ast.AST) -> bool:
    """Whether a module makes columns by itself: a width in a format that is computed, e.g. f"{name:{width}}"."""
    return any(
        isinstance(node, ast.FormattedValue)
        and isinstance(node.format_spec, ast.JoinedStr)
        and len(node.format_spec.values) == 1
        and isinstance(node.format_spec.values[0], ast.FormattedValue)
        for node in ast.walk(tree)
    )


def test_tables_are_made_in_one_place() -> None:
    sources = {path: path.read_text("utf-8") for path in (ROOT / "lab").rglob("*.py")}
    trees = {path: ast.parse(text) for path, text in sources.items() if "rich" in text or ":{" in text}
    assert len(trees) > 10
    assert [path for path, tree in trees.items() if "rich.table" in imported(tree) or padded(tree)] == []
