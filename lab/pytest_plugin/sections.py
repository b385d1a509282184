"""Sections of the guide as tests: preflight, progress and ETA.

They share one run in the store; a refused preflight skips with its remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import pytest
from attrs import define, field, frozen
from labgrid.exceptions import InvalidConfigError, NoSupplierFoundError
from labgrid.pytestplugin.hooks import LABGRID_ENV_KEY

from lab.benchmarks import lab_site
from lab.benchmarks.section import Section
from lab.benchmarks.sections import every, of_chapter, order
from lab.drivers import guarded_calls
from lab.drivers.guarded_calls import ACTIVATE_LIMIT_S, TESTER
from lab.errors import BoardlabError, ConfigurationError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.pytest_plugin import resume, session_rules
from lab.pytest_plugin.labgrid_host import ConsoleStamps, LabgridHost
from lab.pytest_plugin.run_session import RunSession, begin_engine, session_of
from lab.pytest_plugin.runs import STORE_KEY, STRATEGY_KEY, open_run, writer
from lab.pytest_plugin.session_rules import measures
from lab.run import options
from lab.run.progress import Eta
from lab.run.rows import describe_missing
from lab.run.sections import KIND, REPEATS, SECTION, RunSetup, SectionRun, durations, facts_before
from lab.run.session import BoardSession
from lab.terminal import plain, plain_text

RUN_KEY = pytest.StashKey["SectionRunSession"]()
_FIXTURE = "section_measurer"
_RUNS_BACK: Final = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise `section` with the chapter's sections for the board."""
    if not {"section", _FIXTURE} <= {*metafunc.fixturenames} or STRATEGY_KEY not in metafunc.config.stash:
        return
    marker = metafunc.definition.get_closest_marker("chapter")
    if marker is None or "name" not in marker.kwargs:
        raise pytest.UsageError(
            f'{metafunc.definition.nodeid}: mark it with its chapter, @pytest.mark.chapter(name="...")'
        )
    strategy = metafunc.config.stash[STRATEGY_KEY]
    sections = of_chapter(marker.kwargs["name"], strategy.type)
    metafunc.parametrize("section", sections, ids=[section.name for section in sections])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort: boots, Linux, U-Boot, and allowed destructive sections last."""
    items.sort(key=lambda item: (1, *order(section)) if (section := _section_of(item)) else (0, False, False))
    choice = of_session(config)
    choice.apply(config, items, {id(item): section.name for item in items if (section := _section_of(item))})
    for item in items:
        section = _section_of(item)
        if section is not None and section.overwrites and not choice.destructive:
            reason = (
                f"{section.name} overwrites the scratch medium {section.overwrites}: allow it with --lab-destructive"
            )
            item.add_marker(pytest.mark.skip(reason=reason))


def _section_of(item: pytest.Item) -> Section | None:
    callspec = getattr(item, "callspec", None)
    section = callspec.params.get("section") if callspec is not None else None
    return section if isinstance(section, Section) else None  # pytest has a mark of its own where none fits the board


@define(slots=False)
class SectionRunSession(RunSession[SectionRun]):
    """Measures a section for a test, or skips it.

    Attributes:
        eta: of the sections that are left.
        planned: the sections of the session.
    """

    eta: Eta = field(kw_only=True)
    planned: list[Section] = field(kw_only=True)

    @property
    def title(self) -> str:
        return f": {len(self.planned)} sections, about {self.eta}"

    def measure(self, section: Section) -> None:
        """Measure a section unless the run has it already."""
        self.eta.done(section.name)  # later messages are about the others
        if not self.engine.pending(section.name):
            return
        with self.failing():
            refused = self.engine.preflight(section).failed
            problems = "; ".join(f"preflight `{name}`: {problem}" for name, problem in refused.items())
            if not refused:
                self.engine.measure(section)
            elif (run_id := self._last_run_with(section)) is not None:  # a driver or a device may be gone
                advice = f"run {run_id} measured {section.name}. If that is meant, leave it out (--lab-sections)"
                self.engine.refuse(section, f"{problems}; {advice}")
        if refused:
            self.skipped.add(section.name)
            pytest.skip(plain(problems))

    def _last_run_with(self, section: Section) -> int | None:
        """The board's last completed run that was to measure a section, if it did."""
        series = {"kind": KIND, "board_type": self.run.board_type, "board": self.run.board, "status": "completed"}
        for run in self.store.runs(_RUNS_BACK, **series):
            if section.name in run.plan.get("sections", ()):
                is_measured = any(a.params.get(SECTION) == section.name for a in self.store.good_attempts(run.id))
                return run.id if is_measured else None
        return None

    def missing(self, section: Section) -> list[str]:
        """Metrics of the section that have no sample."""
        return self.engine.missing(section)

    def give_back(self) -> None:
        """The governor, where Linux still runs."""
        if self.planned and self.engine.board.status.name == "linux":
            self.engine.setup.give_back(self.engine.session(self.planned[0]))


@pytest.fixture(scope="session")
def section_measurer(
    request: pytest.FixtureRequest,
    strategy: Any,  # noqa: ARG001 - labgrid's drivers outlive the run
    record_testsuite_property: Any,
) -> Iterator[SectionRunSession]:
    """The session's run of sections; it restores governor and power."""
    planned = [
        section
        for item in request.session.items
        if (section := _section_of(item)) and not any(item.iter_markers("skip"))
    ]
    yield from session_of(request.config, RUN_KEY, partial(_begin, planned), record_testsuite_property)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    session = config.stash.get(RUN_KEY, None)
    if session is None:
        return
    run, attempts = session.store.run(session.run.id), session.store.attempts(session.run.id)
    terminalreporter.section(f"sections, run {run.id}: {run.status}")
    measurements = session.store.measurements(run.id)
    sections = {attempt.params[SECTION] for attempt in attempts if attempt.ok}
    samples = sum(len(measurement.samples) for measurement in measurements)
    terminalreporter.write_line(
        f"{len(sections)} sections, {len(measurements)} numbers of {samples} samples, "
        f"{len(session.skipped)} skipped by preflight"
    )
    for line in describe_missing(attempts):
        terminalreporter.write_line(plain(line), red=True)
    terminalreporter.write_line(plain(f"guide: lab guide write --release {run.release} -o FOLDER"))
    if run.status != "completed":
        terminalreporter.write_line(plain(f"go on with: {session_rules.resume_command(config, run.id)}"))


def _begin(planned: list[Section], config: pytest.Config) -> SectionRunSession:
    store, env, strategy = config.stash[STORE_KEY], config.stash[LABGRID_ENV_KEY], config.stash[STRATEGY_KEY]
    repeats = config.option.lab_repeats or _lab_site(env).repeats
    plan: dict[str, object] = {
        "sections": [section.name for section in planned],
        "destructive": of_session(config).destructive,
        REPEATS: {section.name: repeats or section.repeats for section in planned},
    }
    run = open_run(config, strategy, KIND, plan)
    eta, setup, write = Eta({}), RunSetup(), writer(config)
    engine = begin_engine(
        SectionRun,
        config,
        run,
        write=lambda line: write(f"{line}   ETA {eta}"),
        setup=setup,
        session=partial(_open_session, env, strategy, setup, cache(partial(facts_before, store, run))),
    )
    durations_s = durations(store, strategy.type.name)
    for section in planned:
        duration_s = durations_s.get(section.name, section.duration_s)
        eta.left[section.name] = duration_s * len(engine.pending(section.name))
    return SectionRunSession(engine, eta=eta, planned=planned)


def _open_session(
    env: Any, strategy: Any, setup: RunSetup, facts: Callable[[], Mapping[str, str]], section: Section
) -> BoardSession:
    """Session at the section's prompt.

    A fresh Linux is inspected and its clock fixed.
    """
    is_linux, was_linux = section.where == "linux", strategy.status.name == "linux"
    strategy.transition("linux" if is_linux else "bootloader")

    def lose() -> None:
        strategy.status = type(strategy.status).unknown

    def open_session() -> BoardSession:
        driver = strategy.shell if is_linux else strategy.uboot
        host = LabgridHost(driver, strategy.board, is_shell=is_linux, lost_hook=lose)
        stamps = ConsoleStamps(strategy.console, strategy.timing)
        return BoardSession(strategy.type, _lab_site(env), MonotonicRaw(), host, _tester(env), stamps)

    if is_linux and not was_linux:
        setup.take(open_session(), facts())
    return open_session()


def _lab_site(env: Any) -> lab_site.LabSite:
    """The lab around the board, by the environment."""
    where = f"{env.config_file}: targets.main.options.{lab_site.OPTION}"
    return lab_site.of_options(env.config.get_target_option("main", lab_site.OPTION, {}), where)


def _tester(env: Any) -> LabgridHost | None:
    """The target `tester`, by whichever driver of it runs commands."""
    if "tester" not in env.config.get_targets():
        return None

    def find_host() -> LabgridHost:
        try:
            target = env.get_target("tester")
            driver = target.get_driver("CommandProtocol", activate=False)
        except (NoSupplierFoundError, InvalidConfigError) as error:
            raise ConfigurationError(f"{env.config_file}: target `tester`: {error.msg}") from error
        target.activate(driver)
        return LabgridHost(driver, "the tester", LabTransientError)

    return guarded_calls.call(env, TESTER, "activate", find_host, ACTIVATE_LIMIT_S)


@frozen
class Choice:
    """Sections that a session may measure.

    Attributes:
        asked: the names that `--lab-sections` gives; empty: all.
        planned: those of the plan of the run that is resumed; empty: all.
        destructive: True: scratch media may be overwritten.
    """

    asked: frozenset[str]
    planned: frozenset[str]
    destructive: bool

    def apply(self, config: pytest.Config, items: list[pytest.Item], sections: Mapping[int, str]) -> None:
        """Deselect tests of other sections; tests that measure nothing stay.

        Args:
            sections: the id() of each test of a section -> the section's name.

        Raises:
            pytest.UsageError: a section was asked for that none of the tests measures.
        """
        missing = self.asked - {*sections.values()}
        if missing and any(measures(item) for item in items):
            raise pytest.UsageError("; ".join(_absent(name, config) for name in sorted(missing)))
        others = [item for item in items if self._leaves_out(item, sections.get(id(item)))]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]

    def _leaves_out(self, item: pytest.Item, name: str | None) -> bool:
        if name is None:
            return bool(self.asked and measures(item))
        return any(chosen and name not in chosen for chosen in (self.asked, self.planned))


def of_session(config: pytest.Config) -> Choice:
    """Choice by the options and the resumed run's plan.

    Raises:
        pytest.UsageError: the run cannot be resumed.
    """
    asked = options.read({"sections": config.option.lab_sections}).get("sections", [])
    names = frozenset(asked) if isinstance(asked, list) else frozenset()
    destructive = bool(config.option.lab_destructive)
    if config.option.lab_resume is None or STORE_KEY not in config.stash:
        return Choice(names, frozenset(), destructive)
    try:
        plan = resume.resumable(config, config.stash[STORE_KEY]).plan
    except BoardlabError as error:
        raise pytest.UsageError(plain_text(str(error))) from error
    return Choice(names, frozenset(plan.get("sections", ())), destructive or plan.get("destructive") is True)


def _absent(name: str, config: pytest.Config) -> str:
    by_name = {section.name: section for section in every()}
    board_type = config.stash[STRATEGY_KEY].type if STRATEGY_KEY in config.stash else None
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=1)
        return f"--lab-sections {name}: there is no such section" + (f"; did you mean {close[0]}?" if close else "")
    if board_type is not None and not by_name[name].fits(board_type):
        return f"--lab-sections {name}: {board_type.title} does not have what it measures; leave it out"
    return (
        f"--lab-sections {name}: none of these tests measures it; its chapter is {by_name[name].chapter!r}: name that "
        "chapter's file, or none"
    )
