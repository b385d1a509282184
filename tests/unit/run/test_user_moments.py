"""Moments of a user's own in the boots of a run: before the prompt and behind it, of a type, an environment and a lab."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.simruns import SimBench, bench, planned

from lab.boards import OwnMoment, load, load_file
from lab.errors import ConfigurationError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.metrics.lab_metrics import Declarations
from lab.metrics.lab_metrics import load as load_metrics
from lab.results.records import MEASURED
from lab.run.user_moments import read_user_moments

TYPE = load("am62xx_sk")
READY = {"name": "app.ready", "pattern": "myapp: ready"}  # behind the login prompt
INIT = {"name": "app.init", "pattern": r"Run /\S+ as init process", "since": "starting_kernel"}
WHERE = "envs/b1.yaml: targets.main.options.moments"


def with_moments(made: SimBench, *given: Mapping[str, object]) -> None:
    made.run.user_moments = read_user_moments(TYPE, list(given), Declarations(), WHERE)


def test_the_users_moments_stand_beside_the_guides(tmp_path: Path) -> None:
    with bench(tmp_path, [planned("application", "all")], cycles=3) as made:
        with_moments(made, READY, INIT)
        assert [each.outcome for each in made.measure()] == ["ok"] * 3
        run = made.run.run.id
        attempts = made.store.attempts(run)
        for attempt in attempts:
            values = {sample.metric: sample for sample in attempt.samples if "stage" not in sample.params}
            assert values["app.ready"].value > values[BOOT_POWER_ON.name].value, "it is behind the prompt"
            stages = {s.params["stage"]: s.value for s in attempt.samples if "stage" in s.params}
            assert values["app.init"].value == pytest.approx(stages["Kernel entry"] + stages["Kernel"], abs=1e-6)
            assert values["app.init"].value < values[BOOT_TIME.name].value
            assert values["app.ready"].params == values[BOOT_TIME.name].params
            log = made.store.artifacts.read(next(a.sha256 for a in attempt.artifacts if a.kind == "console-log"))
            assert log[: values["app.ready"].log_end].endswith(b"myapp: ready")
            assert b"root@am62xx-evm" not in log[: values["app.ready"].log_end], (
                "a login delays what the board still starts"
            )
            assert attempt.details["cross_check"], "it logs in behind it, though the prompt is no longer the last line"
            assert {moment.name for moment in attempt.moments} >= {"app.ready", "app.init", "login"}
        doubts = [{s.metric: Flag.ON_UNVERIFIED in s.flags for s in each.samples} for each in attempts]
        assert [each["app.ready"] for each in doubts] == [each[BOOT_POWER_ON.name] for each in doubts]
        assert doubts[0]["app.ready"]
        assert not doubts[0]["app.init"], "it does not count from power on"
        (metric,) = {m.metric for m in made.store.measurements(run) if m.metric.name == "app.init"}
        assert not missing_facts(metric.definition, "starting_kernel", "last byte", f"{INIT['pattern']!r}")


def test_a_moment_that_does_not_come_fails_the_cycle_and_keeps_what_it_measured(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        with_moments(made, {"name": "app.never", "pattern": "no such line", "timeout_s": 3.0})
        assert {each.outcome for each in made.measure()} == {"moment_missing"}
        attempt = made.store.attempts(made.run.run.id)[0]
        assert not missing_facts(attempt.message, "app.never", "'no such line'", "3 s", "prompt")
        kept = {each["metric"]: each for each in attempt.details[MEASURED]}
        assert kept.keys() == {BOOT_TIME.name, BOOT_POWER_ON.name}
        assert kept[BOOT_TIME.name]["unit"] == "s"
        assert not attempt.samples


def test_a_lab_replaces_an_environments_moment_and_that_a_types(tmp_path: Path) -> None:
    (file := tmp_path / "metrics.toml").write_text(
        '[[metric]]\nname = "app.ready"\npattern = "lab"\n[[metric.limit]]\nmax = 9.0\n'
        '[[metric]]\nname = "app.drawn"\npattern = "drawn"\nversion = 2\ndefinition = "The first picture."\n'
    )
    declarations = load_metrics(file)
    board = evolve(TYPE, own_moments=[OwnMoment("app.ready", "type"), OwnMoment("app.old", "old")])
    env = [{"name": "app.ready", "pattern": "env"}, {"name": "app.old", "pattern": "env", "timeout_s": 5}]
    found = {
        own.name: (own.pattern, metric) for own, metric in read_user_moments(board, env, declarations, WHERE).moments
    }
    assert {name: pattern for name, (pattern, _) in found.items()} == {
        "app.ready": "lab",
        "app.old": "env",
        "app.drawn": "drawn",
    }
    drawn = found["app.drawn"][1]
    assert (drawn.unit, drawn.better, drawn.version, drawn.definition) == ("s", "lower", 2, "The first picture.")
    assert not missing_facts(found["app.ready"][1].definition, "power on", "last byte", "'lab'")
    assert [limit.max for limit in declarations.limits["app.ready"]] == [9.0]


def test_a_board_type_names_its_own_moments(tmp_path: Path) -> None:
    (file := tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "Mine"\nbased_on = ["am62xx_sk"]\n[[own_moments]]\nname = "app.ready"\npattern = "ready"\n'
    )
    assert load_file(file).own_moments == [OwnMoment("app.ready", "ready")]
    file.write_text(file.read_text().replace('"ready"', '"("'))
    with pytest.raises(ConfigurationError, match=r"mine\.toml.*pattern"):
        load_file(file)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ready", "write a list of moments"),
        ([{"name": "app.ready"}], "missing.*pattern.*a moment has name, pattern, and since or timeout_s"),
        ([{"name": "Ready", "pattern": "x"}], "'name' must match regex"),
        ([{"name": "app.ready", "pattern": "("}], "not a regular expression"),
        ([{"name": "app.ready", "pattern": "x", "timeout_s": 0}], "'timeout_s' must be > 0"),
        ([{"name": "app.ready", "pattern": "x", "after": "y"}], "unexpected keyword argument 'after'"),
        ([{"name": "app.ready", "pattern": "x", "since": "y"}], "since = 'y' is no moment of board type am62xx_sk"),
        ([{"name": "boot.time", "pattern": "x"}], "boardlab measures boot.time itself|is declared otherwise"),
    ],
)
def test_a_wrong_moment_is_told_with_its_place_and_remedy(given: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read_user_moments(TYPE, given, Declarations(), WHERE)


NUMBERS = """
[[metric]]
name = "kernel.memory"
unit = "KiB"
better = "higher"
resolution = 1
pattern = 'Memory: (?P<value>\\d+)K/'

[[metric]]
name = "app.processors"
unit = "1"
better = "higher"
resolution = 1
command = "nproc"
pattern = '^(?P<value>\\d+)$'
"""


def numbers(tmp_path: Path, text: str = NUMBERS) -> Declarations:
    (file := tmp_path / "metrics.toml").write_text(text)
    return load_metrics(file)


def test_numbers_of_the_console_and_of_a_command_are_read_in_each_boot(tmp_path: Path) -> None:
    with bench(tmp_path) as made:
        made.run.user_moments = read_user_moments(TYPE, [READY], numbers(tmp_path), WHERE)
        made.run.user_moments = evolve(made.run.user_moments, moments=())
        assert {each.outcome for each in made.measure()} == {"ok"}
        run = made.run.run.id
        for attempt in made.store.attempts(run):
            values = {sample.metric: sample for sample in attempt.samples}
            memory, processors = values["kernel.memory"], values["app.processors"]
            log = made.store.artifacts.read(next(a.sha256 for a in attempt.artifacts if a.kind == "console-log"))
            line = log[memory.log_start : memory.log_end].decode()
            assert f"Memory: {memory.value:.0f}K/" in line
            assert processors.value == TYPE.identity.cpus if TYPE.identity else False
            assert memory.params == values[BOOT_TIME.name].params
            assert memory.uncertainty == 0.5
        (metric,) = {m.metric for m in made.store.measurements(run) if m.metric.name == "app.processors"}
        assert not missing_facts(metric.definition, "first line", "`nproc`", repr(r"^(?P<value>\d+)$"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("Memory: ", "No such: "), "kernel.memory: no line matches .* after the prompt"),
        (("'^(?P<value>", "'^no(?P<value>"), "app.processors: no line of `nproc` matches .*; the output was '4'"),
        ((r"(?P<value>\d+)K/", r"(?P<value>\d+K)/"), "kernel.memory: .* is not a number; let the group `value`"),
    ],
)
def test_a_number_that_does_not_come_fails_the_cycle(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    text = NUMBERS.replace(*change).replace("resolution = 1\npattern", "resolution = 1\ntimeout_s = 3\npattern")
    with bench(tmp_path) as made:
        made.run.user_moments = read_user_moments(TYPE, [], numbers(tmp_path, text), WHERE)
        assert {each.outcome for each in made.measure()} == {"moment_missing"}
        attempt = made.store.attempts(made.run.run.id)[0]
        assert re.search(told, attempt.message)
        assert {each["metric"] for each in attempt.details[MEASURED]} == {BOOT_TIME.name, BOOT_POWER_ON.name}


def test_a_wrong_number_is_told_with_its_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'kernel\.memory'.*better"):
        numbers(tmp_path, NUMBERS.replace('better = "higher"\n', "", 1))
    declarations = numbers(tmp_path, NUMBERS.replace('command = "nproc"', 'since = "spl"'))
    with pytest.raises(ConfigurationError, match=r"since.*name, pattern"):
        read_user_moments(TYPE, [], declarations, WHERE)
