"""A run that is resumed is the same run: its board, its software, its plan; and a plan that is none is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.errors import ConfigurationError
from lab.pytest_plugin import resume
from lab.pytest_plugin.runs import STORE_KEY, open_run
from lab.results import Run, Store, open_store

STRATEGY = SimpleNamespace(medium="sd", type=SimpleNamespace(name="am62xx_sk"), board="b-1")
PLANS: dict[str, dict[str, Any]] = {
    "boot": {"cycles": 20, "media": ["sd", "emmc"]},
    "low_power": {"cycles": 20, "modes": ["deep_sleep"], "wake": "uart", "sleep_s": 5, "medium": "sd"},
    "sections": {"sections": ["lmbench"], "destructive": False, "repeats": {"lmbench": 3}},
}
NOT_GIVEN = {
    "where": None,
    "release": None,
    "cycles": None,
    "medium": None,
    "init": None,
    "mode": None,
    "wake": None,
    "sleep": None,
    "energy": False,
    "shuffle": False,
    "destructive": False,
    "repeats": None,
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def begun(store: Store, kind: str = "boot", plan: Any = None, release: str = "11.01") -> Run:
    run = store.begin_run(
        kind, "am62xx_sk", "b-1", release, plan=PLANS.get(kind) if plan is None else plan, provenance={}
    )
    store.finish_run(run.id, "interrupted")
    return run


def session(store: Store, run: Run, env_release: str = "", **options: Any) -> Any:
    given = {f"lab_{name}": value for name, value in {**NOT_GIVEN, "resume": run.id, **options}.items()}
    known = {"release": env_release} if env_release else {}
    env = SimpleNamespace(config=SimpleNamespace(get_option=known.get), config_file="am62x.yaml")
    stash = pytest.Stash()
    stash[STORE_KEY] = store
    stash[LABGRID_ENV_KEY] = env  # type: ignore[misc]
    plugins = SimpleNamespace(getplugin=lambda _name: None)
    return SimpleNamespace(
        stash=stash, option=SimpleNamespace(**given), getoption=given.__getitem__, pluginmanager=plugins
    )


@pytest.mark.parametrize("kind", PLANS)
def test_a_run_goes_on_where_nothing_says_otherwise(store: Store, kind: str) -> None:
    run = begun(store, kind)
    assert open_run(session(store, run), STRATEGY, kind, {}).status == "running"


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("boot", {"cycles": 10}, "cycles: the run has 20, now it is 10"),
        ("boot", {"medium": ["emmc,sd"]}, r"media: the run has \['sd', 'emmc'\], now it is \['emmc', 'sd'\]"),
        ("boot", {"init": "/bin/sh"}, r"init: the run has '\(not given\)', now it is '/bin/sh'"),
        ("boot", {"mode": ["deep_sleep"]}, r"modes: the run has '\(not given\)'"),
        ("boot", {"wake": "rtc"}, "wake: "),
        ("boot", {"energy": True}, "energy: "),
        ("low_power", {"wake": "rtc"}, "wake: the run has 'uart', now it is 'rtc'"),
        ("low_power", {"sleep": 9}, "sleep_s: the run has 5, now it is 9"),
        ("low_power", {"medium": ["emmc"]}, "medium: the run has 'sd', now it is 'emmc'"),
        ("low_power", {"mode": ["mcu_only"]}, "modes: "),
        ("low_power", {"energy": True}, r"energy: the run has '\(not given\)', now it is True"),
        ("low_power", {"init": "/bin/sh"}, "init: "),
        ("sections", {"destructive": True}, "destructive: the run has False, now it is True"),
        ("sections", {"cycles": 3}, "cycles: "),
        ("sections", {"repeats": 2}, r"repeats: the run has {'lmbench': 3}, now it is {'lmbench': 2}"),
        ("boot", {"repeats": 2}, r"repeats: the run has '\(not given\)', now it is 2"),
        ("boot", {"release": "11.02"}, r"run 1 is of release '11\.01', and --lab-release says '11\.02'"),
        ("boot", {"env_release": "11.02"}, r"of release '11\.01', and am62x\.yaml says \(options: release\) '11\.02'"),
    ],
)
def test_what_contradicts_the_run_is_refused_and_the_run_stays_as_it_was(
    store: Store, kind: str, options: dict[str, Any], says: str
) -> None:
    run = begun(store, kind)
    with pytest.raises(ConfigurationError, match=says):
        open_run(session(store, run, **options), STRATEGY, kind, {})
    assert store.run(run.id).status == "interrupted"


def test_a_completed_run_is_resumed_for_its_diagnostic_boots_alone(store: Store) -> None:
    run = begun(store)
    store.finish_run(run.id, "completed")
    assert open_run(session(store, run, where=True), STRATEGY, "boot", {}) == store.run(run.id)
    assert store.run(run.id).status == "completed"
    with pytest.raises(ConfigurationError, match="nothing to resume"):
        open_run(session(store, run), STRATEGY, "boot", {})


def test_what_the_run_has_already_may_be_said_again(store: Store) -> None:
    run = begun(store)
    options = {"release": "11.01", "cycles": 20, "medium": ["sd", "emmc"]}
    assert open_run(session(store, run, env_release="11.02", **options), STRATEGY, "boot", {}).id == run.id


def test_repeats_may_be_said_again_and_a_run_from_before_them_goes_on(store: Store) -> None:
    assert open_run(session(store, begun(store, "sections"), repeats=3), STRATEGY, "sections", {})
    old = begun(store, "sections", {"sections": ["lmbench"], "destructive": False})
    assert open_run(session(store, old), STRATEGY, "sections", {}).id == old.id


@pytest.mark.parametrize("repeats", [3, {"lmbench": 0}, {"lmbench": "3"}, ["lmbench"]])
def test_a_plan_whose_repeats_are_damaged_is_refused(store: Store, repeats: object) -> None:
    run = begun(store, "sections", {"sections": ["lmbench"], "destructive": False, "repeats": repeats})
    with pytest.raises(ConfigurationError, match=r"repeats: .*from 1 to"):
        resume.check_plan(run)


def test_another_board_is_refused(store: Store) -> None:
    run = begun(store)
    other = SimpleNamespace(type=STRATEGY.type, board="b-2")
    with pytest.raises(ConfigurationError, match=r"run 1 .*b-1.*b-2"):
        resume.check(run, session(store, run), other)


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("boot", {"cycles": None}, "plan of run 1: cycles: expected a whole number from 1 to 100000, got None"),
        ("boot", {"cycles": "20"}, "cycles: expected a whole number"),
        ("boot", {"cycles": True}, "cycles: expected a whole number"),
        ("boot", {"cycles": 10**18}, "cycles: expected a whole number"),
        ("boot", {"media": "sd"}, "media: expected a list of names, got 'sd'"),
        ("boot", {"media": [1]}, "media: expected a list of names"),
        ("boot", {"init": 3}, "init: expected a path"),
        ("low_power", {"sleep_s": 0}, "sleep_s: expected a whole number from 1 to 86400"),
        ("low_power", {"modes": {}}, "modes: expected a list of names"),
        ("low_power", {"energy": "yes"}, "energy: expected true or false"),
        ("sections", {"sections": None}, "sections: expected a list of names"),
        ("moonshine", {}, "of a kind that this boardlab does not measure: 'moonshine'"),
    ],
)
def test_a_malformed_plan_is_named_with_its_key(store: Store, kind: str, change: dict[str, Any], says: str) -> None:
    run = begun(store, kind, {**PLANS.get(kind, {}), **change})
    with pytest.raises(ConfigurationError, match=says) as raised:
        resume.resumable(session(store, run), store)
    assert "begin a new run" in str(raised.value)


@pytest.mark.parametrize(("kind", "key"), [("boot", "media"), ("low_power", "wake"), ("sections", "sections")])
def test_a_plan_that_lacks_something_is_refused(store: Store, kind: str, key: str) -> None:
    plan = {name: value for name, value in PLANS[kind].items() if name != key}
    with pytest.raises(ConfigurationError, match=f"run 1 has no '{key}'"):
        resume.check_plan(begun(store, kind, plan))
