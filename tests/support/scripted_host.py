"""A host of sections that answers from a script, for tests of preflights and of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace

from attrs import define, field

from lab import boards
from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.section import Section
from lab.console.model import Event
from lab.console.status import PortInfo
from lab.errors import BoardlabError
from lab.host.clock import MonotonicRaw
from lab.results import Run, Store
from lab.run.progress import Progress
from lab.run.sections import SectionRun
from lab.run.session import BoardSession, CommandResult

Answer = str | BoardlabError | tuple[str, int]


@define
class ScriptedClock:
    """Stands still but while a command runs."""

    ns: int = 0

    def now_ns(self) -> int:
        return self.ns


@define
class ScriptedHost:
    """Answers a command by the first pattern that is found in it; others succeed and say nothing.

    A list of answers is used up; its last one stays. A command takes `took_s`; None: as long as it may.
    """

    answers: Mapping[str, Answer | list[Answer]] = field(factory=dict)
    ran: list[str] = field(factory=list)
    took_s: float | None = None
    clock: ScriptedClock = field(factory=ScriptedClock)

    def run(self, command: str, timeout_s: float) -> CommandResult:
        assert timeout_s > 0
        self.ran.append(command)
        self.clock.ns += round((timeout_s if self.took_s is None else self.took_s) * 1e9)
        found = next((answer for pattern, answer in self.answers.items() if re.search(pattern, command)), "")
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, BoardlabError):
            raise found
        text, status = found if isinstance(found, tuple) else (found, 0)
        return CommandResult(text.splitlines(), status)


def session(host: ScriptedHost, tester: ScriptedHost | None = None, site: LabSite | None = None) -> BoardSession:
    """A session of an am62xx_sk."""
    if tester is not None:
        tester.clock = host.clock
    return BoardSession(boards.load("am62xx_sk"), site or LabSite(), host.clock, host, tester)


@define
class SilentConsole:
    """A console that loses nothing and that nobody else reads."""

    capture: list[Event] = field(factory=list)
    info: PortInfo | None = None

    def overruns(self) -> int:
        return 0

    def blame_sharing(self, error: BoardlabError) -> BoardlabError:
        return error


def section_run(
    store: Store,
    run: Run,
    session: Callable[[Section], BoardSession],
    *,
    write: Callable[[str], None] = lambda _line: None,
    retries: int = 0,
    console: object = None,
    software: Mapping[str, str] | None = None,
) -> SectionRun:
    """A run of sections on a board that only has a console."""
    board = SimpleNamespace(console=console or SilentConsole(), software=software or {})
    clock = MonotonicRaw()
    return SectionRun(store, run, board, Progress(write, clock, 0), clock, lambda _s: None, retries, session=session)


def sessions(host: ScriptedHost) -> Callable[[object], BoardSession]:
    return lambda _section: session(host)
