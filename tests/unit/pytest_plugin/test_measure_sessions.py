"""The fixture `measure` in sessions of labgrid's users: any environment, any test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.facts import missing_facts
from support.leansessions import session

from lab.errors import ConfigurationError
from lab.pytest_plugin import measure as plugin
from lab.results import Attempt, Store, open_store

ENV = """
targets:
  main:
    options: {board: camera-7}
    resources:
      NetworkPowerPort: {model: simplerest, host: 127.0.0.1, index: 1}
    drivers:
      - ExternalPowerDriver: {cmd_on: 'true', cmd_off: "sh -c 'echo off >> switched'"}
"""
FRAME = 'unit="s", better="lower", resolution=0.01'

MANY = f"""
import pexpect
import pytest

HISTORY = []

@pytest.fixture
def shell(tmp_path):
    HISTORY.append("up")
    yield tmp_path
    HISTORY.append("down")

@pytest.mark.cycles(3)
def test_frame(measure, shell):
    n = HISTORY.count("up")
    assert HISTORY.count("down") == n - 1
    (shell / "frame.txt").write_text(f"frame {{n}}")
    measure.attach(shell / "frame.txt")
    measure("camera.frame", [n, n + 0.5], {FRAME})
    if n == 2:
        raise pexpect.TIMEOUT("no answer")

@pytest.mark.parametrize("side", ["left", "right"])
def test_light(measure, side):
    measure("camera.light", 7, unit="lx", better="higher", resolution=1, params={{"lamp": "on"}})

def test_clash(measure):
    measure("camera.frame", 3, unit="ms")

def test_wrong_call(measure):
    measure("camera.frame", 3, units="s")

def test_not_finite(measure):
    measure("camera.frame", [1.0, float("nan")], {FRAME})

def test_asserts(measure):
    measure("camera.frame", 4)
    assert False, "too dark"

def test_measures_nothing(measure):
    pass

@pytest.mark.skipif(True, reason="no lens")
def test_skipped(measure):
    measure("camera.frame", 1)

def test_of_somebody_else():
    pass
"""


def lab(tmp_path: Path, tests: str, env: str = ENV) -> Path:
    (tmp_path / "env.yaml").write_text(env)
    (tmp_path / "test_own.py").write_text(tests)
    return tmp_path


def attempts(store: Store, test: str) -> list[Attempt]:
    (run, *_) = store.runs()
    return [each for each in store.attempts(run.id) if each.params["test"] == f"test_own.py::{test}"]


def values(found: Sequence[Attempt]) -> list[list[float]]:
    return [[sample.value for sample in attempt.samples] for attempt in found]


def outcomes(found: Sequence[Attempt]) -> list[tuple[int, str]]:
    return [(attempt.cycle, attempt.outcome) for attempt in found]


def test_every_kind_of_test_keeps_its_numbers_its_failures_and_its_evidence(tmp_path: Path) -> None:
    done = session(lab(tmp_path, MANY), tmp_path, "--lg-env", "env.yaml", "--strict-markers")
    assert "5 failed, 4 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert not missing_facts(done.stdout, "measurements", "run 1: failed")
    assert not missing_facts(done.stdout, "camera.frame", "test_frame")
    assert re.search(r" 6 in 3/3 ", done.stdout), done.stdout
    with open_store(str(tmp_path / "results.db")) as store:
        frames = attempts(store, "test_frame")
        assert outcomes(frames) == [(1, "ok"), (2, "shell_timeout"), (2, "ok"), (3, "ok")]
        assert values(frames) == [[1.0, 1.5], [], [3.0, 3.5], [4.0, 4.5]]
        assert frames[1].details["measured"][0] == {"metric": "camera.frame", "value": 2.0, "unit": "s", "params": {}}
        kept = [each.artifact("file:frame.txt") for each in frames]
        assert [store.artifacts.read(ref.sha256) for ref in kept if ref] == [
            b"frame 1",
            b"frame 2",
            b"frame 3",
            b"frame 4",
        ]
        assert {sample.uncertainty for each in frames for sample in each.samples} == {0.005}
        run = store.runs()[0]
        assert (run.kind, run.board, run.board_type, run.status) == ("measure", "camera-7", "labgrid", "failed")
        numbers = {(m.metric.name, *sorted(m.params.items())): m for m in store.measurements(run.id)}
        assert set(numbers) == {
            ("camera.frame",),
            ("camera.light", ("lamp", "on"), ("side", "left")),
            ("camera.light", ("lamp", "on"), ("side", "right")),
        }
        assert numbers["camera.frame",].metric.unit == "s"
        for test, outcome, why in (
            ("test_clash", "configuration", "unit 'ms' here, 's' there"),
            ("test_not_finite", "test", "got nan; give a finite number"),
        ):
            (failed,) = attempts(store, test)
            assert (failed.outcome, failed.transient, failed.samples) == (outcome, False, ())
            assert why in failed.message
            (measured,) = failed.details["measured"]
            assert measured["why"] == failed.message
        (wrong,) = attempts(store, "test_wrong_call")
        assert wrong.outcome == "configuration"
        assert not missing_facts(wrong.message, "test_own.py:31", "'units'")
        (asserted,) = attempts(store, "test_asserts")
        assert (asserted.outcome, asserted.details["measured"][0]["value"]) == ("test", 4.0)
        assert [each.outcome for each in attempts(store, "test_measures_nothing")] == ["test"]
        assert attempts(store, "test_skipped") == []
    # Three cycles from power off, and a retry; and each later test begins after a failure of the one before.
    assert (tmp_path / "switched").read_text().split() == ["off"] * (4 + 4)
    assert "too dark" in done.stdout, "a test's own failure has its traceback"


def test_a_resumed_run_measures_the_cycles_that_it_lacks(tmp_path: Path) -> None:
    text = f"""
import pathlib
import pytest

@pytest.mark.cycles(4, start="warm")
def test_frame(measure):
    marks = pathlib.Path("marks")
    n = len(marks.read_text()) if marks.exists() else 0
    marks.write_text("x" * (n + 1))
    if n == 2:
        raise KeyboardInterrupt
    measure("camera.frame", n, {FRAME})

def test_light(measure):
    measure("camera.light", 7, unit="lx", better="higher", resolution=1)
"""
    folder = lab(tmp_path, text)
    done = session(folder, tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    with open_store(str(tmp_path / "results.db")) as store:
        assert store.runs()[0].status == "interrupted"
    done = session(folder, tmp_path, "--lg-env", "env.yaml", "--lab-resume", "1")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    with open_store(str(tmp_path / "results.db")) as store:
        assert [(run.id, run.status) for run in store.runs()] == [(1, "completed")]
        found = [each for each in store.attempts(1) if each.params["test"].endswith("test_frame")]
        assert outcomes(found) == [(1, "ok"), (2, "ok"), (3, "ok"), (4, "ok")]
        assert values(found) == [[0.0], [1.0], [3.0], [4.0]]
    assert not (tmp_path / "switched").exists(), "a warm cycle switches nothing"


DECLARED = """
[[metric]]
name = "camera.{name}"
unit = "s"
better = "lower"
resolution = 0.01

[[metric.limit]]
max = {limit}
guard = 0.1
"""
CASES = {"clear": ("2.0", "pass"), "near": ("1.05", "marginal"), "over": ("0.9", "fail")}


def test_a_limit_passes_warns_or_fails_the_test_and_stays_with_the_run(tmp_path: Path) -> None:
    text = "".join(f'def test_{name}(measure):\n    measure("camera.{name}", 1.0)\n\n' for name in CASES)
    declared = "".join(DECLARED.format(name=name, limit=limit) for name, (limit, _) in CASES.items())
    (tmp_path / "metrics.toml").write_text(declared)
    done = session(lab(tmp_path, text), tmp_path, "--lg-env", "env.yaml")
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert not missing_facts(done.stdout, "FAILED", "test_own.py::test_over", "camera.over", "mean 1 s")
    for name, (limit, word) in CASES.items():
        sentence = f"camera.{name}: mean 1 s ± 0.005 s: {word} (at most {float(limit):g} s, guard 0.1 s)"
        assert sentence in done.stdout
    with open_store(str(tmp_path / "results.db")) as store:
        assert [len(each.samples) for each in store.attempts(1)] == [1, 1, 1], "a number beyond its limit is one"
    (tmp_path / "metrics.toml").write_text(declared.replace('"s"', '"ms"'))
    done = session(tmp_path, tmp_path, "--lg-env", "env.yaml", "-k", "clear")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert not missing_facts(done.stdout, "'ms'", "'s'")


@pytest.mark.parametrize(
    ("env", "toml", "told"),
    [
        (ENV.replace("options: {board: camera-7}", "options: {}"), "", "targets.main.options.board"),
        (ENV, "[[metric]", "metrics.toml: not TOML"),
        (ENV, "->.", "metrics.toml: cannot be read: Is a directory"),
        (ENV, "->gone.toml", "metrics.toml: cannot be read: No such file or directory"),
    ],
    ids=["no_name", "bad_toml", "directory", "dangling_link"],
)
def test_a_wrong_lab_is_told_before_anything_is_measured(tmp_path: Path, env: str, toml: str, told: str) -> None:
    if toml.startswith("->"):
        (tmp_path / "metrics.toml").symlink_to(toml.removeprefix("->"))
    elif toml:
        (tmp_path / "metrics.toml").write_text(toml)
    text = f'def test_frame(measure):\n    measure("camera.frame", 1, {FRAME})\n'
    done = session(lab(tmp_path, text, env), tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    said = done.stdout + done.stderr
    assert told in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("test", "told"),
    [
        (
            '@pytest.mark.parametrize("x", [1, "1", 2])\ndef test_frame(measure, x):',
            r"test_own.py::test_frame\[1_?0\] and test_own.py::test_frame\[1_?1\] have the same parameters as texts, {'x': '1'}",
        ),
        (
            '@pytest.mark.parametrize("boot_medium", ["sd"])\n@pytest.mark.parametrize("medium", ["x"])\n'
            "def test_frame(measure, medium, boot_medium):",
            "its numbers have the parameter medium of boot_medium",
        ),
    ],
    ids=["same_text", "medium"],
)
def test_numbers_that_their_parameters_do_not_distinguish_are_refused(tmp_path: Path, test: str, told: str) -> None:
    text = f'import pytest\n\n{test}\n    measure("camera.frame", 1, {FRAME})\n'
    done = session(lab(tmp_path, text), tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    said = done.stdout + done.stderr
    assert re.search(told, said), said
    assert "Traceback" not in said


LIGHT = 'unit="lx", better="higher", resolution=1'
TWO = f"""
import os
import pytest

@pytest.mark.cycles(2, start="warm")
def test_left(measure):
    measure("camera.frame", [1.0, 1.1], {FRAME})
    measure("camera.light", 1.0, {LIGHT}, params={{"side": "left"}})

@pytest.mark.cycles(2, start="warm")
def test_right(measure):
    measure("camera.light", 2.0, {LIGHT}, params={{"side": "right"}})
    if "POOLED" in os.environ:
        measure("camera.frame", 2.0, {FRAME})
"""


def test_one_name_of_two_tests_is_never_one_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOLED", "1")
    done = session(lab(tmp_path, TWO), tmp_path, "--lg-env", "env.yaml")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    told = "test_own.py::test_left and test_own.py::test_right measure camera.frame with the same parameters, {}"
    assert told in done.stdout
    with open_store(str(tmp_path / "results.db")) as store:
        assert outcomes(attempts(store, "test_left")) == [(1, "ok"), (2, "ok")]
        (refused,) = attempts(store, "test_right")
        assert (refused.outcome, refused.samples) == ("configuration", ())
        assert [each["value"] for each in refused.details["measured"]] == [2.0, 2.0]
    again = session(tmp_path, tmp_path, "--lg-env", "env.yaml", "--lab-resume", "1")
    assert told in again.stdout, "a resumed run knows the tests of its earlier session"
    monkeypatch.delenv("POOLED")
    last = session(tmp_path, tmp_path, "--lg-env", "env.yaml", "--lab-resume", "1")
    assert "1 passed, 1 skipped" in last.stdout, last.stdout
    with open_store(str(tmp_path / "results.db")) as store:
        numbers = {(m.metric.name, *m.params.values()): [s.value for s in m.samples] for m in store.measurements(1)}
    assert numbers == {
        ("camera.frame",): [1.0, 1.1, 1.0, 1.1],
        ("camera.light", "left"): [1.0, 1.0],
        ("camera.light", "right"): [2.0, 2.0],
    }


class MarkedTest:
    """A test with this mark, in a session with this option."""

    nodeid = "test_own.py::test_frame"

    def __init__(self, mark: object, lab_cycles: int | None = None) -> None:
        self.mark = mark
        self.config = SimpleNamespace(option=SimpleNamespace(lab_cycles=lab_cycles))

    def get_closest_marker(self, _name: str) -> object:
        return self.mark


def test_a_parameter_of_the_labs_own_is_not_taken_for_the_start() -> None:
    def item(start: str) -> Any:
        found: Any = MarkedTest(SimpleNamespace(args=(2,), kwargs={"start": start}))
        found.callspec = SimpleNamespace(params={"start": "slow"}, id="slow")
        return found

    assert plugin._start(item("off")) == "off"
    for start in ("first", "reboot"):
        with pytest.raises(ConfigurationError, match=r"parametrize.*another name"):
            plugin._start(item(start))


def test_the_mark_says_how_often_and_from_what_state() -> None:
    def read(mark: object, lab_cycles: int | None = None) -> tuple[int, str]:
        item: Any = MarkedTest(mark, lab_cycles)
        return plugin._cycles_of(item), plugin._start(item)

    def cycles(*args: object, **kwargs: object) -> object:
        return SimpleNamespace(args=args, kwargs=kwargs)

    assert [read(None), read(None, 9)] == [(1, "warm")] * 2
    assert [read(cycles(20)), read(cycles(n=20)), read(cycles(3), 20)] == [(20, "off")] * 3
    assert read(cycles(20, start="warm")) == (20, "warm")
    assert read(cycles(20, start="reboot")) == (20, "reboot")
    assert read(cycles(20, start="first")) == (20, "first")
    for wrong in (cycles(0), cycles("2"), cycles(True), cycles(), cycles(2, start="cold"), cycles(10**9)):
        with pytest.raises(ConfigurationError, match=r"test_own.py::test_frame: @pytest.mark.cycles"):
            read(wrong)


def test_a_board_that_cannot_reboot_says_what_is_needed(tmp_path: Path) -> None:
    text = f"""
import pytest

@pytest.mark.cycles(2, start="reboot")
def test_frame(measure):
    measure("camera.frame", 1, {FRAME})
"""
    done = session(lab(tmp_path, text), tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == 1
    assert not missing_facts(done.stdout + done.stderr, "start=", "reboot", "BoardStrategy")
    lab(tmp_path, text.replace("reboot", "first"))
    done = session(tmp_path, tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert not missing_facts(done.stderr, "start=", "first", "--lab-provision FILE")


def test_a_fixture_of_that_name_of_the_labs_own_is_left_alone(tmp_path: Path) -> None:
    text = """
import pytest

@pytest.fixture
def measure():
    return 3

def test_own(measure):
    assert measure == 3
"""
    done = session(lab(tmp_path, text), tmp_path, "--lg-env", "env.yaml")
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "results.db").exists()
