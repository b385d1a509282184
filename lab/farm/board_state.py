"""The state of a board for web, terminal, exporter and dashboards."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from attrs import evolve, field, frozen

from lab.health import Health
from lab.health.reservations import QUALIFYING, QUARANTINE, Hold
from lab.jobs.records import call
from lab.judge.latest import WorseNumber, describe
from lab.results.listing import FailedAttempt, ListedRun

StateName = Literal[
    "needs a person",
    "failed",
    "worse",
    "away",
    "in maintenance",
    "qualifying",
    "unknown",
    "never reached",
    "measuring",
    "held",
    "waiting",
    "free",
]
STATES: Final[tuple[StateName, ...]] = get_args(StateName)  # in the order of lists: a problem comes first
PROBLEMS: Final = frozenset(STATES[:4])
_QUIET: Final = dt.timedelta(days=7)  # a farm measures each night
_LONGEST: Final = 120  # characters of a message in a cause
_QUOTED: Final = re.compile(r"""'((?:[^'\\]|\\.){8,})'|"((?:[^"\\]|\\.){8,})\"""")  # what the board itself said
_OWN_TEXT: Final = re.compile(r"panic|Oops|BUG:|Unable to |Internal error|watchdog|error", re.IGNORECASE)
_CLAUSE_ENDS: Final = re.compile(r"[.;:](?= |$)|,(?= )| \(")


@frozen
class JobNow:
    """A job that waits for a board, or has it.

    Attributes:
        state: "queued" or "running".
        who: the person and the program.
        since: start of its lease or its wait.
        died: its process is gone, or its host gives no sign of life.
        planned: cycles of its runs, over all media, modes or sections; 0: unknown.
        expected_end: None: unknown.
        good: those of them that gave their samples; an attempt at a row of a section is none.
    """

    id: int
    state: str
    suites: str
    who: str
    since: dt.datetime
    died: bool
    planned: Mapping[int, int] = field(factory=dict)
    expected_end: dt.datetime | None = None
    good: Mapping[int, int] = field(factory=dict)


@frozen
class BoardState:
    """The state of a board in a word, with its cause.

    Attributes:
        cause: of a problem, or whose hold; empty: none.
        fault: "board", "lab", "release", ...; empty: unknown, or none.
        since: its begin; None: unknown.
        word: the cause in a word, to be read from afar, e.g. `kernel_panic` or `+23 %`; empty: none.
    """

    name: StateName
    cause: str = ""
    fault: str = ""
    since: dt.datetime | None = None
    word: str = ""

    @property
    def is_problem(self) -> bool:
        """True if a person is to look at the board."""
        return self.name in PROBLEMS

    @property
    def explains(self) -> bool:
        """True if its cause says why the board serves nobody."""
        return self.is_problem or self.name in {"in maintenance", "qualifying", "unknown", "never reached"}


@frozen
class BoardNow:
    """Facts on a board at this moment, and its state.

    Attributes:
        job: that has it.
        waiting: number of waiting jobs.
        console: its writer; empty: none.
        port: problem of its port or its recording.
        away: its port or its exporter is gone, and the remedy.
        current: the run that is being measured.
        last: the last one before.
        failures: of its attempts in the last 24 h, by class, the last one's first.
        holds: its reservation, maintenance, quarantine or qualification.
        coming: reservations that begin later.
        place: "host/user" that acquired its place by hand; empty: none known.
        health: result of its checks and failures; None: unknown.
        worse: numbers that no person decided on, see `lab.judge.latest`.
        is_judged: its latest runs are.
        failed_by: the last failed attempt of `last`; None: none, or `last` did not fail.
        unseen: why a problem of it might not be seen; empty: it would.
        is_reached: the results have a run or a check of it; None: they cannot be read.
    """

    board: str
    board_type: str = ""
    env: str = ""
    job: JobNow | None = None
    waiting: int = 0
    console: str = ""
    port: str = ""
    current: ListedRun | None = None
    last: ListedRun | None = None
    failures: Mapping[str, int] = field(factory=dict)
    holds: tuple[Hold, ...] = ()
    coming: tuple[Hold, ...] = ()
    place: str = ""
    health: Health | None = None
    away: str = ""
    worse: tuple[WorseNumber, ...] = ()
    is_judged: bool = True
    failed_by: FailedAttempt | None = None
    is_reached: bool | None = True
    unseen: str = ""

    @property
    def progress(self) -> tuple[int, int]:
        """Good and planned cycles of the current run; 0 planned: unknown."""
        if self.current is None:
            return 0, 0
        run, job = self.current.run.id, self.job
        planned = job.planned.get(run, 0) if job is not None else 0
        return job.good.get(run, self.current.good) if job is not None and planned else self.current.good, planned

    @property
    def seen_at(self) -> dt.datetime | None:
        """When its last run or check ended; None: there is none."""
        ends = [] if self.last is None else [self.last.run.finished_at or self.last.run.started_at]
        if self.health is not None and self.health.checked_at is not None:
            ends.append(self.health.checked_at)
        return max(ends, default=None)

    def is_silent(self, at: dt.datetime) -> bool:
        """True if a free board had no run and no check for a week."""
        seen_at = self.seen_at
        return self.state.name == "free" and seen_at is not None and at - seen_at > _QUIET

    @property
    def state(self) -> BoardState:
        """The state of the board.

        A problem comes before an activity, but a failed run that is measured again counts no more, and a person who
        has the board in maintenance knows its problems. A board that has not qualified serves nobody yet. Of several
        problems the gravest is the state; the lab's others are in its cause.
        """
        hold = next((standing for standing in self.holds if standing.kind == "maintenance"), None)
        if hold is not None:
            return BoardState("in maintenance", hold.described, since=hold.at, word=hold.person)
        new = next((standing for standing in self.holds if standing.kind == QUALIFYING), None)
        if new is not None:
            return BoardState("qualifying", new.described, since=new.at)
        every = (self._broken, self._failed, self._abandoned, self._away, self._worse)
        problems = [problem for problem in every if problem is not None]
        if not problems:
            return self._activity
        first, *others = problems
        return evolve(
            first, cause="; ".join([first.cause, *(other.cause for other in others if other.fault == "lab")])
        )

    @property
    def _broken(self) -> BoardState | None:
        """A problem of the lab around the board."""
        quarantine = next((standing for standing in self.holds if standing.kind == QUARANTINE), None)
        if quarantine is not None:
            return BoardState("needs a person", quarantine.described, "lab", quarantine.at, QUARANTINE)
        if self.port:
            return BoardState("needs a person", self.port, "lab", word="console")
        if self.health is not None and self.health.state == "bad":
            return BoardState("needs a person", f"bad: {self.health.gravest}", "lab", self.health.since, "bad")
        return None

    @property
    def _failed(self) -> BoardState | None:
        """A last run that failed or was killed, and isn't repeated."""
        if self.last is None or self.current is not None or self.last.run.end not in {"failed", "killed"}:
            return None
        run, attempt = self.last.run, self.failed_by
        since = run.finished_at or run.started_at
        if run.end == "killed":
            if self._abandoned is not None:
                return None  # that says more
            cause = f"run {run.id} was killed; `pytest --lab-resume {run.id}` continues it"
            return BoardState("failed", cause, "lab", since, "killed")
        if attempt is None:
            return BoardState("failed", f"run {run.id} failed", since=since)
        message = brief(attempt.message)
        return BoardState(
            "failed",
            f"run {run.id} failed: {attempt.outcome}{f', {message}' if message else ''}",
            attempt.fault,
            since,
            attempt.outcome,
        )

    @property
    def _abandoned(self) -> BoardState | None:
        """A job whose process is gone."""
        if self.job is None or not self.job.died:
            return None
        cause = f"job {call(self.job.id)}: its process is gone"
        return BoardState("needs a person", cause, "lab", self.job.since, "job gone")

    @property
    def _away(self) -> BoardState | None:
        """A port or an exporter that is gone."""
        return BoardState("away", self.away, "lab") if self.away else None

    @property
    def _worse(self) -> BoardState | None:
        """Worse numbers without a person's decision."""
        if not self.worse:
            return None
        ends = [number.at for number in self.worse if number.at is not None]
        fault = "release" if any(number.is_release for number in self.worse) else ""
        return BoardState("worse", describe(self.worse), fault, min(ends, default=None), self.worse[0].size)

    @property
    def _activity(self) -> BoardState:
        """The use of a board without a problem."""
        if self.current is not None:
            return BoardState("measuring", since=self.job.since if self.job else self.current.run.started_at)
        reserved = next(iter(self.holds), None)
        if self.job is not None:
            cause = f"job {call(self.job.id)} of {self.job.who}"
            return BoardState("held", cause, since=self.job.since, word=self.job.suites)
        if reserved is not None:
            return BoardState("held", reserved.described, since=reserved.at, word=reserved.person)
        if self.console or self.place:
            by = f"console held by {self.console}" if self.console else f"place held by {self.place}"
            return BoardState("held", by)
        if self.waiting:
            return BoardState("waiting", f"{self.waiting} waiting")
        idle: dict[bool | None, BoardState] = {
            True: BoardState("unknown", self.unseen) if self.unseen else BoardState("free"),
            False: BoardState("never reached", f"no run and no check of it yet: lab health {self.board} --check"),
            None: BoardState("unknown", "without results its runs, jobs and reservations are not known"),
        }
        return idle[self.is_reached]


def count_states(states: Iterable[StateName]) -> dict[StateName, int]:
    """The number of boards in each state, in the order of STATES."""
    counts: dict[StateName, int] = dict.fromkeys(STATES, 0)
    for name in states:
        counts[name] += 1
    return counts


def brief(message: str) -> str:
    """A message in short: the board's own text, else the first clause.

    It ends at the end of a clause, or of a word and with an ellipsis.
    """
    message = " ".join(message.split())
    quoted = next((match[1] or match[2] for match in _QUOTED.finditer(message)), "")
    text = quoted if _OWN_TEXT.search(quoted) else message
    if len(text) <= _LONGEST and text is not message:
        return text
    ends = [match.start() for match in _CLAUSE_ENDS.finditer(text) if 0 < match.start() <= _LONGEST]
    if len(text) > _LONGEST and not ends:
        return f"{text[:_LONGEST].rpartition(' ')[0] or text[:_LONGEST]} …"
    sentence = next((match.start() for match in re.finditer(r"[.;](?= |$)", text)), len(text))
    return text[:sentence] if sentence <= _LONGEST else text[: ends[-1]]
