"""`--lab-resume`: a run continues with its plan, board and software.

Contradicting options are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from attrs import evolve, frozen
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.errors import ConfigurationError
from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.records import number
from lab.results import Run, Store, plan_differences
from lab.run import options
from lab.run.options import MAX_CYCLES, MAX_SLEEP_S

# pytest option -> key of the plan; a run that does not use an option has no such key.
_OPTIONS: Final = {"lab_cycles": "cycles"} | {option.dest: option.plan for option in options.TABLE if option.plan}
_MEDIUM: Final = "medium"
_MEDIA: Final = "media"
_REPEATS: Final = "repeats"  # a plan has those of each section


def find_run(config: pytest.Config, store: Store) -> None:
    """Replace a job (`j12`) in `--lab-resume` by its unfinished run.

    Raises:
        ConfigurationError: there is no such job, or it has no such run.
    """
    job_name = config.option.lab_resume
    if not isinstance(job_name, str):
        return
    job = listing.job(store, number(job_name))
    runs = listing.view(store, job, utc_now()).runs
    unfinished = [run.id for run in runs if run.status != "completed"]
    if not unfinished:
        had = f"its runs ({', '.join(str(run.id) for run in runs)}) are completed" if runs else "it has no run"
        raise ConfigurationError(f"job {job.called} has nothing to resume: {had}; begin a new one")
    config.option.lab_resume = unfinished[-1]


def resumable(config: pytest.Config, store: Store) -> Run:
    """Return the run that `--lab-resume` names.

    Raises:
        ConfigurationError: there is no such run, or this boardlab cannot continue its plan.
    """
    run = store.run(config.option.lab_resume)
    check_plan(run)
    return run


def check(run: Run, config: pytest.Config, strategy: Any, *, labelled_by_env: bool = True) -> None:
    """Make sure that the session has the run's board, software, plan.

    Args:
        labelled_by_env: the environment's `release` counts, since boardlab has not provisioned the board.

    Raises:
        ConfigurationError: an option or the environment says otherwise; both values are named.
    """
    if (run.board_type, run.board) != (strategy.type.name, strategy.board):
        raise ConfigurationError(
            f"run {run.id} is of board {run.board} ({run.board_type}), the env is of {strategy.board} "
            f"({strategy.type.name}): resume it with that board's env"
        )
    env = config.stash[LABGRID_ENV_KEY]
    option_release = config.option.lab_release
    named = option_release or (env.config.get_option("release", "") if labelled_by_env else "")
    if named and str(named) != run.release:
        who = "--lab-release says" if option_release else f"{env.config_file} says (options: release)"
        raise ConfigurationError(
            f"run {run.id} is of release {run.release!r}, and {who} {str(named)!r}: a run has one release. Resume it "
            "with the software that it was begun with, or begin a new run"
        )
    differences = plan_differences(run.plan, {**run.plan, **dict(_option_values(run, config))})
    if differences:
        raise ConfigurationError(
            f"--lab-resume goes on with the run's own plan: {'; '.join(differences)}; leave it out"
        )


def _option_values(run: Run, config: pytest.Config) -> Iterator[tuple[str, object]]:
    """Yield the options' values for a plan, by its keys."""
    for option, plan_key in _OPTIONS.items():
        value = config.getoption(option)
        key = _MEDIUM if plan_key == _MEDIA and plan_key not in run.plan else plan_key  # low power has one medium
        if isinstance(value, list):
            names = list(dict.fromkeys(name for texts in value for name in texts.split(",")))
            yield key, names[0] if key == _MEDIUM and len(names) == 1 else names
        elif value not in (None, False):
            yield (
                key,
                dict.fromkeys(run.plan["sections"], value) if key == _REPEATS and "sections" in run.plan else value,
            )


@frozen
class _Value:
    """The expected value of a plan's key."""

    described: str
    fits: Callable[[object], bool]
    required: bool = True


def _number(maximum: int) -> _Value:
    return _Value(f"a whole number from 1 to {maximum}", lambda value: type(value) is int and 1 <= value <= maximum)


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and name for name in value)


_CYCLES: Final = _number(MAX_CYCLES)
_NAMES: Final = _Value("a list of names", _names)
_NAME: Final = _Value("a name", lambda value: isinstance(value, str) and bool(value))
_FLAG: Final = _Value("true or false", lambda value: isinstance(value, bool), required=False)
_SECTION_REPEATS: Final = _Value(
    f"section: whole number from 1 to {MAX_CYCLES}",
    lambda value: isinstance(value, dict) and all(_CYCLES.fits(count) for count in value.values()),
    required=False,  # before it was there, each section was measured once
)
_REQUIRED_REPEATS: Final = evolve(
    _SECTION_REPEATS, described=f"test: whole number from 1 to {MAX_CYCLES}", required=True
)
_KINDS: Final[Mapping[str, Mapping[str, _Value]]] = {
    "boot": {"cycles": _CYCLES, "media": _NAMES, "init": _Value("a path", _NAME.fits, required=False)},
    "low_power": {
        "cycles": _CYCLES,
        "modes": _NAMES,
        "wake": _NAME,
        "sleep_s": _number(MAX_SLEEP_S),
        "medium": _NAME,
        "energy": _FLAG,
        "shuffle": _FLAG,
    },
    "sections": {"sections": _NAMES, "destructive": _FLAG, "repeats": _SECTION_REPEATS},
    "measure": {"tests": _NAMES, "repeats": _REQUIRED_REPEATS},
}


def check_plan(run: Run) -> None:
    """Check that this program can resume a run's plan.

    Raises:
        ConfigurationError: a key is missing or wrong; the message names the run and the key.
    """
    hint = "it was damaged, or another boardlab wrote it; begin a new run"
    if run.kind not in _KINDS:
        raise ConfigurationError(
            f"run {run.id} is of a kind that this boardlab does not measure: {run.kind!r}; {hint}"
        )
    for key, value in _KINDS[run.kind].items():
        if key not in run.plan:
            if value.required:
                raise ConfigurationError(f"the plan of run {run.id} has no {key!r} ({value.described}): {hint}")
        elif not value.fits(run.plan[key]):
            text = repr(run.plan[key])[:60]
            raise ConfigurationError(
                f"the plan of run {run.id}: {key}: expected {value.described}, got {text}: {hint}"
            )
