"""Low power in sessions: options, the run, and the summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.benchmarks.lowpower.modes import RTC, UART, SuspendPlan, check_plan, wake_of, woken_by
from lab.errors import BoardlabError, ConfigurationError
from lab.metrics.catalogue import STATES
from lab.pytest_plugin import resume
from lab.pytest_plugin.run_session import CycleRunSession, CycleSessionKey, begin_engine, session_of
from lab.pytest_plugin.runs import (
    DEFAULT_CYCLES,
    MEDIA_KEY,
    STORE_KEY,
    STRATEGY_KEY,
    chosen,
    open_run,
    summarise_run,
)
from lab.run.lowpower import KIND, LowPowerRun
from lab.terminal import plain_text

DEFAULT_WAKE, DEFAULT_SLEEP_S = "uart", 5
POWER_SLEEP_S = 15  # with rails: their sensors average over more than a second, and some of that make a mean

MODES_KEY = pytest.StashKey[list[str]]()
RUN_KEY = CycleSessionKey()


@pytest.hookimpl(trylast=True)  # the strategy and the store come first
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if STRATEGY_KEY not in config.stash:
        return
    try:
        config.stash[MODES_KEY] = _modes(config, config.stash[STRATEGY_KEY])
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sleep_mode" not in metafunc.fixturenames or MODES_KEY not in metafunc.config.stash:
        return
    modes: list[Any] = [*metafunc.config.stash[MODES_KEY]]
    if not modes:
        title = metafunc.config.stash[STRATEGY_KEY].type.title
        modes = [pytest.param("none", marks=pytest.mark.skip(reason=f"{title} has no low-power modes"))]
    metafunc.parametrize("sleep_mode", modes, scope="session")


@pytest.fixture(scope="session")
def low_power_measurer(
    request: pytest.FixtureRequest,
    strategy: Any,  # noqa: ARG001 - labgrid's drivers outlive the run
    record_testsuite_property: Any,
) -> Iterator[CycleRunSession]:
    """The session's low-power run; the board is switched off at its end."""
    yield from session_of(request.config, RUN_KEY, _begin, record_testsuite_property)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash.get(RUN_KEY, None)
    if session is not None:
        summarise_run(terminalreporter, config, "low power", session.run.id)


def _begin(config: pytest.Config) -> CycleRunSession:
    strategy = config.stash[STRATEGY_KEY]
    media = config.stash[MEDIA_KEY]
    if config.option.lab_energy and strategy.rails is None:
        raise ConfigurationError(
            "--lab-energy: nothing measures this board's rails; add RailSensors and a RailsDriver to the env"
        )
    flags = {name: True for name in ("energy", "shuffle") if getattr(config.option, f"lab_{name}")}
    plan = flags | {
        "cycles": config.option.lab_cycles or DEFAULT_CYCLES,
        "modes": chosen(config, "low_power_measurer", "sleep_mode", config.stash[MODES_KEY]),
        "wake": config.option.lab_wake or DEFAULT_WAKE,
        "sleep_s": config.option.lab_sleep or (DEFAULT_SLEEP_S if strategy.rails is None else POWER_SLEEP_S),
        "medium": media[0] if media else strategy.medium,
    }
    run = open_run(config, strategy, KIND, plan)
    return CycleRunSession(begin_engine(LowPowerRun, config, run))


def _modes(config: pytest.Config, strategy: Any) -> list[str]:
    """Modes and power states to measure: the options', else all modes with a wake-up source.

    The board must have them, and for a state its rails' sensors.
    """
    option = config.option
    if option.lab_resume is not None:
        return list(resume.resumable(config, config.stash[STORE_KEY]).plan.get("modes", []))
    asked = list(dict.fromkeys(name for option_text in option.lab_mode or [] for name in option_text.split(",")))
    possible = []
    for mode in strategy.type.sleep:
        jumper = strategy.type.low_power.modes[mode].jumper
        if {RTC, UART, *strategy.wired} & {*woken_by(strategy.type, mode)} and jumper in {"", *strategy.jumpers}:
            possible.append(mode)
    states = [state for state in asked if state in STATES]
    if states and strategy.rails is None:
        raise ConfigurationError(
            f"--lab-mode {','.join(states)}: nothing measures this board's rails; add RailSensors and a RailsDriver "
            "to the env"
        )
    for mode in [mode for mode in asked or possible if mode not in STATES]:
        wake = option.lab_wake or DEFAULT_WAKE
        if mode in strategy.type.sleep and (not option.lab_wake or strategy.type.low_power.modes[mode].boots):
            wake = wake_of(strategy.type, mode, wake, strategy.wired)
        check_plan(strategy.type, SuspendPlan(mode, wake))
    if option.lab_wake and not strategy.type.sleep:
        raise ConfigurationError(f"--lab-wake {option.lab_wake}: {strategy.type.title} has no low-power modes")
    return asked or possible
