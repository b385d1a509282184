"""A host of sections that answers from a script, for tests of preflights and of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import define, field

from lab import boards
from lab.benchmarks.lab_site import LabSite
from lab.errors import BoardlabError
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


def sessions(host: ScriptedHost) -> Callable[[object], BoardSession]:
    return lambda _section: session(host)
