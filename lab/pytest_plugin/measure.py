"""The fixture `measure`: numbers of a lab's own tests, through the run, the store and the judge of all others.

A test that asks for `measure` is one item of the run's plan. Its cycles (`@pytest.mark.cycles(20)`) are repetitions of
the whole test: its fixtures are set up anew for each, and it is retried as a boot is.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pytest
from _pytest.runner import call_and_report
from attrs import define, field
from labgrid.binding import BindingState
from labgrid.strategy import StrategyError

from lab.benchmarks.cycles import CycleAttempt, run_cycles
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import SHELL
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, TestStableError
from lab.pytest_plugin import judge, limits, provisioning, resume
from lab.pytest_plugin.run_session import RunSession, begin_engine, session_of
from lab.pytest_plugin.runs import ITEMS_KEY, STORE_KEY, STRATEGY_KEY, open_run, summarise_run
from lab.pytest_plugin.session_rules import measures
from lab.results.records import TEST
from lab.run.measure import KIND, Measure, MeasureRun
from lab.run.options import MAX_CYCLES
from lab.terminal import plain_text

RUN_KEY = pytest.StashKey["TestRunSession"]()
FIXTURE: Final = "measure"
MARKER: Final = "cycles"
ENDS: Final = (pytest.exit.Exception, KeyboardInterrupt)  # of the session
WARM, OFF, REBOOT, FIRST = "warm", "off", "reboot", "first"  # what a cycle begins with
MARK_START: Final = "start"  # of the marker; the parameter of the numbers after a reboot, or of a first boot
_ERROR_KEY = pytest.StashKey[BaseException | None]()
_SKIPPED_KEY = pytest.StashKey[set[str]]()
_MEDIUM_FIXTURE: Final = "boot_medium"


@define(slots=False)
class TestRunSession(RunSession[MeasureRun]):
    """Records what a session's tests measure.

    Attributes:
        current: what the cycle that runs has measured.
        unknown: the state of the board, since an attempt failed.
    """

    __test__ = False

    current: Measure | None = None
    unknown: bool = False


@pytest.fixture(scope="session")
def measure_measurer(
    request: pytest.FixtureRequest,
    target: Any,  # noqa: ARG001 - labgrid's drivers outlive the run
    record_testsuite_property: Any,
) -> Iterator[TestRunSession]:
    """The session's run of its own tests; the board is switched off at its end."""
    yield from session_of(request.config, RUN_KEY, _begin, record_testsuite_property)


@pytest.fixture
def measure(measure_measurer: TestRunSession, request: pytest.FixtureRequest) -> Measure:
    """Records a number of this test.

    E.g. `measure("camera.first_frame", 0.412, unit="s", better="lower", resolution=0.001)`.
    """
    session, item, config = measure_measurer, request.node, request.config
    board, start, params = config.stash[STRATEGY_KEY], _start(item), _params(item)
    if start == REBOOT:
        if not hasattr(board, "reboot"):
            raise ConfigurationError(f'start="{REBOOT}" needs a BoardStrategy of this boardlab: `lab init` writes it')
        if session.unknown:
            board.transition(OFF)
        board.transition("linux")  # its power on is not of this cycle
    if start in {REBOOT, FIRST}:
        params[MARK_START] = start
    session.current = session.engine.begin(params)
    if start == REBOOT:
        board.reboot()
    elif start == FIRST:
        provisioning.first_boot(config)
    elif start == OFF:
        board.transition(OFF)
    elif session.unknown:
        with suppress(ConfigurationError):  # nothing switches it
            board.transition(OFF)
    session.unknown = False
    return session.current


def _begin(config: pytest.Config) -> TestRunSession:
    items = [item for item in config.stash[ITEMS_KEY] if measures(item) == KIND and not any(item.iter_markers("skip"))]
    plan: dict[str, object] = {
        "tests": [item.nodeid for item in items],
        "repeats": {item.nodeid: _cycles_of(item) for item in items},
    }
    run = open_run(config, config.stash[STRATEGY_KEY], KIND, plan)
    engine = begin_engine(MeasureRun, config, run, declarations=limits.declarations(config))
    return TestRunSession(engine, skipped=config.stash.setdefault(_SKIPPED_KEY, set()))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f'{MARKER}(n, start="{OFF}"): measure n times, each from power off, start="{REBOOT}": by Linux\' reboot, '
        f'start="{FIRST}": after its release was written anew, or start="{WARM}": as the board is',
    )


@pytest.hookimpl(trylast=True)  # a plain environment's board comes first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set `measure` up first; on resume, leave out what the run has not planned."""
    ours = [item for item in items if measures(item) == KIND]
    if not ours or STRATEGY_KEY not in config.stash:
        return
    try:
        for item in ours:
            names = cast("Any", item).fixturenames
            names.remove(FIXTURE) if FIXTURE in names else None
            names.insert(0, FIXTURE)
            _cycles_of(item)
            if _start(item) == FIRST:
                provisioning.check_first_boot(config)
        _check_distinct(ours)
        planned = _plan_to_resume(config)
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    others = [item for item in ours if planned is not None and item.nodeid not in planned]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def _check_distinct(items: list[pytest.Item]) -> None:
    """Refuse tests whose parameters are the same as texts: their numbers would be one.

    Raises:
        ConfigurationError: the message names two such tests.
    """
    tests: dict[tuple[str, frozenset[tuple[str, str]]], str] = {}
    for item in items:
        params = _params(item)
        function = item.nodeid.partition("[")[0]
        other = tests.setdefault((function, frozenset(params.items())), item.nodeid)
        if params and other != item.nodeid:
            raise ConfigurationError(
                f"{other} and {item.nodeid} have the same parameters as texts, {params}: their numbers would be one. "
                "Give one of them another value, or another parameter"
            )


def _plan_to_resume(config: pytest.Config) -> dict[str, int] | None:
    """Test -> cycles of the run that is resumed; None: none of this kind."""
    if config.option.lab_resume is None:
        return None
    run = resume.resumable(config, config.stash[STORE_KEY])
    return dict(run.plan["repeats"]) if run.kind == KIND else None


def _cycles_of(item: pytest.Item) -> int:
    """The cycles of a test by its marker, and --lab-cycles over it."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return 1
    count = marker.args[0] if marker.args else marker.kwargs.get("n")
    if type(count) is not int or not 1 <= count <= MAX_CYCLES:
        raise ConfigurationError(
            f"{item.nodeid}: @pytest.mark.{MARKER}({count!r}): a whole number from 1 to {MAX_CYCLES}"
        )
    return cast("int", item.config.option.lab_cycles or count)


def _start(item: pytest.Item) -> str:
    """The start of a test's cycles: `off`, `reboot`, `first` or `warm`."""
    marker = item.get_closest_marker(MARKER)
    start = WARM if marker is None else marker.kwargs.get(MARK_START, OFF)
    if start not in {WARM, OFF, REBOOT, FIRST}:
        raise ConfigurationError(
            f'{item.nodeid}: @pytest.mark.{MARKER}: start={start!r}: "{OFF}", "{REBOOT}", "{FIRST}" or "{WARM}"'
        )
    if start in {REBOOT, FIRST} and MARK_START in _params(item):
        raise ConfigurationError(
            f"{item.nodeid}: @pytest.mark.parametrize({MARK_START!r}): the numbers of {MARKER}(start={start!r}) have "
            "this parameter; give yours another name"
        )
    return cast("str", start)


def _params(item: pytest.Item) -> dict[str, str]:
    """The parameters of a test, which distinguish its numbers."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return {}
    if {"medium", _MEDIUM_FIXTURE} <= callspec.params.keys():
        raise ConfigurationError(
            f"{item.nodeid}: its numbers have the parameter medium of {_MEDIUM_FIXTURE}; give yours another name"
        )
    texts = {  # objects of other types have pytest's id of the test, which distinguishes them
        name: str(value) if isinstance(value, (str, bool, int, float)) else callspec.id
        for name, value in callspec.params.items()
    }
    return {"medium" if name == _MEDIUM_FIXTURE else name: text for name, text in texts.items()}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that measures once a cycle, with retries."""
    config = item.config
    if measures(item) != KIND or STRATEGY_KEY not in config.stash or any(item.iter_markers("skip")):
        return None
    repetition = _Repetition(item)
    if not repetition.pending():
        item.add_marker(pytest.mark.skip(reason="the resumed run has all its cycles"))
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    repetition.run(nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Keep the error itself, whose class decides on a retry."""
    report = yield
    if call.excinfo is not None and item.stash.get(_ERROR_KEY, None) is None:
        item.stash[_ERROR_KEY] = _wrong_call(call.excinfo) or call.excinfo.value
    return report


def _wrong_call(error: pytest.ExceptionInfo[BaseException]) -> ConfigurationError | None:
    """Python's error of a call of `measure` with wrong arguments, as ours; None: it is another one."""
    call = re.fullmatch(rf"{Measure.__name__}\.(\w+)\(\) (.+)", str(error.value), re.DOTALL)
    if type(error.value) is not TypeError or call is None or not hasattr(Measure, call[1]):
        return None
    method = "" if call[1] == "__call__" else f".{call[1]}"
    arguments = list(inspect.signature(getattr(Measure, call[1])).parameters)[1:]
    place = error.traceback[-1]
    return ConfigurationError(
        f"{Path(place.path).name}:{place.lineno + 1}: {FIXTURE}{method} {call[2]}; its arguments are "
        f"{', '.join(arguments)}"
    )


class _SkippedError(Exception):
    """The test skipped itself: no attempt."""


@define
class _Repetition:
    """The cycles of one test."""

    item: pytest.Item
    reports: list[pytest.TestReport] = field(factory=list)

    @property
    def _session(self) -> TestRunSession | None:
        return self.item.config.stash.get(RUN_KEY, None)  # the first test's set-up makes it

    def run(self, nextitem: pytest.Item | None) -> None:
        """Measure the pending cycles, and report the last try as the test's."""
        config = self.item.config
        message = ""
        try:
            run_cycles(
                self.pending(),
                self._try,
                self._record,
                retries=config.option.lab_retries,
                sleep=time.sleep,
                before_cycle=lambda: self._session.engine.before_cycle() if self._session else None,
            )
            message = self._verdicts()
        except _SkippedError:
            config.stash.setdefault(_SKIPPED_KEY, set()).add(self.item.nodeid)
        except BoardlabError as error:
            message = self._fail(error)
        reports = self.reports[:2] + [report for report in self.reports[2:] if not report.passed]
        if message:
            failed = next((report for report in reports if report.failed), reports[-1])
            if failed.passed or isinstance(self.item.stash[_ERROR_KEY], BoardlabError):
                failed.outcome, failed.longrepr = "failed", message
        for report in reports:
            self.item.ihook.pytest_runtest_logreport(report=report)
        if self.item.session.shouldfail or self.item.session.shouldstop:
            nextitem = None
        state = cast("Any", self.item.session)._setupstate  # what is left: the fixtures of module and session
        call = pytest.CallInfo.from_call(lambda: state.teardown_exact(nextitem), "teardown", reraise=ENDS)
        report = self.item.ihook.pytest_runtest_makereport(item=self.item, call=call)
        self.item.ihook.pytest_runtest_logreport(report=report)

    def pending(self) -> list[int]:
        """The cycles that the run lacks."""
        config, test = self.item.config, self.item.nodeid
        if self._session is not None:
            return self._session.engine.pending(test)
        planned, done = _plan_to_resume(config), set[int]()
        if planned is not None:
            attempts = config.stash[STORE_KEY].good_attempts(config.option.lab_resume)
            done = {attempt.cycle for attempt in attempts if attempt.params.get(TEST) == test}
        cycles = (planned or {}).get(test) or _cycles_of(self.item)
        return [cycle for cycle in range(1, cycles + 1) if cycle not in done]

    def _try(self, _cycle: int, _number: int) -> Measure:
        """Set the test up, call it, and tear it down.

        Raises:
            BoardlabError: what failed, whatever the test raised.
        """
        item = cast("Any", self.item)
        self.item.stash[_ERROR_KEY] = None
        if self._session is not None:
            self._session.current = None
        if not item._request:  # as pytest's own runtestprotocol does for an item that runs again
            item._initrequest()
        try:
            self.reports = [call_and_report(self.item, "setup", log=False)]
            if self.reports[0].passed:
                self.reports.append(call_and_report(self.item, "call", log=False))
                self._sync()
            self.reports.append(call_and_report(self.item, "teardown", log=False, nextitem=item.parent))
        finally:
            item._request, item.funcargs = False, None
        if any(report.skipped for report in self.reports):
            raise _SkippedError
        error = self.item.stash[_ERROR_KEY]
        if error is not None:
            raise _lab_error(error) from error
        failed = next((report for report in self.reports if report.failed), None)
        if failed is not None:  # e.g. a strict xfail that passed
            raise TestStableError(failed.longreprtext)
        session = self._session
        if session is None or session.current is None or not session.current.samples:
            raise TestStableError(
                f"{self.item.nodeid} asks for `{FIXTURE}` and measured nothing: call it, e.g. "
                f"{FIXTURE}('camera.first_frame', 0.4)"
            )
        session.engine.check_test(self.item.nodeid, session.current)
        return session.current

    def _sync(self) -> None:
        """Have all bytes of the console in its capture, the evidence."""
        console = self.item.config.stash[STRATEGY_KEY].console
        if getattr(console, "state", None) is BindingState.active:
            try:
                console.sync()
            except BoardlabError as error:
                self.item.stash[_ERROR_KEY] = self.item.stash[_ERROR_KEY] or error

    def _record(self, attempt: CycleAttempt[Measure]) -> None:
        session = self._session
        if session is not None and session.current is not None:
            session.unknown |= attempt.error is not None
            session.engine.record(self.item.nodeid, attempt, session.current)

    def _fail(self, error: BoardlabError) -> str:
        """The message of a failure; a host that is away ends the session of a `lab run`."""
        if self._session is None:
            return str(error)
        try:
            with self._session.failing():
                raise error
        except pytest.fail.Exception as failed:
            return str(failed)

    def _verdicts(self) -> str:
        """Complaints of the limits and the judge; empty: none."""
        session = self._session
        if session is None:
            return ""
        try:
            broken = limits.broken(self.item, session.store, session.run.id)
            session.failed |= bool(broken)
            return "\n".join([*broken, *judge.worse(self.item, session.run.id)])
        except BoardlabError as error:
            return self._fail(error)


def _lab_error(error: BaseException) -> BoardlabError:
    """The class of a test's exception: labgrid's are the board's, any other is the test's."""
    if isinstance(error, BoardlabError):
        return error
    text = plain_text(f"{type(error).__name__}: {error}".strip())
    if isinstance(error, StrategyError):
        return BoardTransientError(text)
    if isinstance(error, Exception) and type(error).__module__.partition(".")[0] in {"labgrid", "pexpect"}:
        failure_meaning = guarded_calls.meaning(error)
        if failure_meaning.configuration:
            return ConfigurationError(text)
        kind = SHELL.passing if failure_meaning.transient else SHELL.lasting
        return kind(text, failure=f"{SHELL.name}_{failure_meaning.failure}")
    return TestStableError(text)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash.get(RUN_KEY, None)
    if session is not None:
        summarise_run(terminalreporter, config, "measurements", session.run.id)
