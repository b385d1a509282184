"""Judge of a session: `--lab-judge` and `--lab-confirms RUN`.

With `--lab-judge` a test whose numbers are certainly worse fails with the verdict. `--lab-confirms` measures the items
that RUN asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from lab.errors import BoardlabError, ConfigurationError
from lab.judge.records import CALLED, UNSURE, StoredVerdict
from lab.pytest_plugin.runs import STORE_KEY, STRATEGY_KEY
from lab.pytest_plugin.session_rules import MEASURERS, measures
from lab.results.history import Item
from lab.results.records import TEST
from lab.run.measure import KIND as MEASURE
from lab.terminal import plain, plain_text

# kind of a run -> (parameter of its tests, parameter of its attempts) with the measured item
_ITEMS: Final[Mapping[str, tuple[str, str]]] = {
    "boot": ("boot_medium", "medium"),
    "low_power": ("sleep_mode", "mode"),
    "sections": ("section", "section"),
}
_PRINTED: Final = {*CALLED, UNSURE, "no samples"}
_VERDICTS_KEY = pytest.StashKey[dict[int, list[StoredVerdict]]]()  # run -> what was said of it


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that a confirmed run did not ask for."""
    if config.option.lab_confirms is None or STRATEGY_KEY not in config.stash:
        return
    from lab.judge.run_judge import items_to_rerun  # noqa: PLC0415 - numpy

    store = config.stash[STORE_KEY]
    try:
        run = store.run(config.option.lab_confirms)
        asked = items_to_rerun(store, run.id)
        strategy = config.stash[STRATEGY_KEY]
        if (run.board_type, run.board) != (strategy.type.name, strategy.board):
            raise ConfigurationError(f"--lab-confirms: run {run.id} is of {run.board}; give that board's env")
        if not asked:
            raise ConfigurationError(
                f"--lab-confirms: the judge asks for nothing of run {run.id} again; judge it first: lab judge "
                f"run {run.id}"
            )
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    others = [item for item in items if (kind := measures(item)) and not (kind == run.kind and is_of(item, asked))]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After a test has measured, its numbers are judged."""
    result = yield
    if measures(item) and measures(item) != MEASURE and (complaints := worse(item, None)):
        pytest.fail("\n".join(complaints), pytrace=False)
    return result


def worse(item: pytest.Item, run_id: int | None) -> list[str]:
    """With `--lab-judge`: the verdicts on a test's numbers that are certainly worse.

    Args:
        run_id: None: of the test's measurer.
    """
    if not item.config.option.lab_judge:
        return []
    alarms = [verdict for verdict in _judge(item, run_id) if verdict.alarms]
    if not alarms:
        return []
    from lab.judge.text import sentence  # noqa: PLC0415 - with what it writes in

    return [plain(sentence(verdict)) for verdict in alarms]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts on the session's numbers."""
    judged = config.stash.get(_VERDICTS_KEY, {})
    for run_id, verdicts in judged.items():
        from lab.judge.latest import still_worse, worse_of_run  # noqa: PLC0415
        from lab.judge.text import needs, sentence  # noqa: PLC0415

        terminalreporter.section(f"the judge on run {run_id}")
        for verdict in verdicts:
            if verdict.outcome in _PRINTED:
                terminalreporter.write_line(plain(sentence(verdict)), red=verdict.alarms)
        unchanged = sum(verdict.outcome == "none" for verdict in verdicts)
        terminalreporter.write_line(f"{unchanged} of {len(verdicts)} numbers have not moved")
        if needs_history := needs(verdicts):
            terminalreporter.write_line(f"no history: {needs_history}")
        if worse := worse_of_run(config.stash[STORE_KEY], run_id, verdicts):
            terminalreporter.write_line(plain(still_worse(worse)), yellow=True)


def _judge(item: pytest.Item, run_id: int | None) -> list[StoredVerdict]:
    """Judge a test's numbers; the verdicts become JUnit properties."""
    from lab.judge.run_judge import judge_run  # noqa: PLC0415 - numpy
    from lab.judge.store import verdicts_with  # noqa: PLC0415 - with numpy's user

    store = item.config.stash[STORE_KEY]
    if run_id is None:
        fixture = next(name for name in MEASURERS if name in item.fixturenames)  # type: ignore[attr-defined]
        run_id = item.funcargs[fixture].run.id  # type: ignore[attr-defined]
    try:
        judged = judge_run(store, run_id)
        verdicts = verdicts_with(store, judged.run.id)
    except BoardlabError as error:
        pytest.fail(plain_text(f"[{error.failure}, fault: {error.fault}] not judged: {error}"), pytrace=False)
    item.config.stash.setdefault(_VERDICTS_KEY, {})[judged.run.id] = verdicts
    item_numbers = {number.verdict.number for number in judged.judged if is_of(item, [number.item])}
    own = [verdict for verdict in verdicts if verdict.number in item_numbers]
    for verdict in own:
        item.user_properties.extend(_properties(verdict))
    return own


def _properties(verdict: StoredVerdict) -> Iterator[tuple[str, object]]:
    label = ",".join(f"{name}={value}" for name, value in verdict.params.items())
    name = f"{verdict.metric}[{label}]"
    yield f"{name} verdict", verdict.outcome
    if verdict.since_run is not None:
        yield f"{name} effect", f"{verdict.effect:+.5f}"
        if verdict.low is not None and verdict.high is not None:
            yield f"{name} interval", f"{verdict.low:+.5f} {verdict.high:+.5f}"
        yield f"{name} since", verdict.since_run


def is_of(item: pytest.Item, asked: Sequence[Item] | frozenset[Item]) -> bool:
    """Return whether a test measures one of these plan items.

    A test that names none measures all.
    """
    if measures(item) == MEASURE:
        return any(dict(asked_item).get(TEST) == item.nodeid for asked_item in asked)
    parameter, name = _ITEMS[measures(item)]
    callspec = getattr(item, "callspec", None)
    if callspec is None or parameter not in callspec.params:
        return True
    value = callspec.params[parameter]
    return any(dict(asked_item).get(name) == getattr(value, "name", value) for asked_item in asked)
