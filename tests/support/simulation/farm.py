"""Jobs of several hosts on a few boards, their sessions, and what people do meanwhile.

An order is begun again until it is done, as a timer, a queue or a person does. All of it is boardlab's own: `lab run` from its runner
down, `lab provision` from its lease to its record, a session of pytest from its job, its release and its label to its run's loop of cycles.
Only the boot itself, and the medium, are played.
"""

from __future__ import annotations

import math
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from attrs import define, field, frozen

from lab.control.place_holders import PlaceHolders
from lab.control.provisioning import check_expected
from lab.errors import BoardlabError, BoardTransientError, ConfigurationError, LabTransientError
from lab.farm import job_queue, runner
from lab.farm.board_state import BoardNow
from lab.farm.runner import Runner, RunnerPaths
from lab.health import BoardCheck, CheckedPart
from lab.health.reservations import ReservationBook
from lab.health.store import HealthBook
from lab.jobs import lease, listing
from lab.jobs.queue import PERSONS, TIMERS
from lab.jobs.records import BOARDS as CHOICE
from lab.jobs.records import BY_HEALTH, BY_PROVISION, JOB_VARIABLE, Job, Order, number
from lab.jobs.waiting import BusyBoardError
from lab.metrics import SampleRecord
from lab.places.job_place import PlaceWait, hold_place, other_user
from lab.provision.history import ProvisionBook
from lab.provision.provisioning import Provisioner
from lab.provision.release import Recovery, Release
from lab.provision.writer import Writer
from lab.pytest_plugin import jobs as plugin
from lab.pytest_plugin import provisioning
from lab.pytest_plugin.run_session import CycleRunSession, session_of
from lab.pytest_plugin.runs import (
    ITEMS_KEY,
    JOB_KEY,
    LABGRID_ENV_KEY,
    MEDIA_KEY,
    RUNS_KEY,
    STORE_KEY,
    STRATEGY_KEY,
    check_resumed,
    label,
)
from lab.results import Run, Store
from lab.run import options
from lab.run.attempts import AttemptResult
from lab.run.boot import BootRun
from lab.run.options import JUDGE
from lab.run.progress import Progress
from lab.web import job_control
from support.scripted_host import SilentConsole
from support.simulation.database import Results
from support.simulation.media import (
    BOARD_TYPE,
    CARD,
    EMMC,
    FACTORY,
    FATES,
    HANGS,
    OTHER,
    RIGHT,
    Emmc,
    Medium,
    kernel_of,
    release_of,
)
from support.simulation.nights import BOARDS, METRIC, boot_time, provenance
from support.simulation.places import Places, played_target, tidy
from support.simulation.system import RULE, System
from support.simulation.world import START_S, Host, World

CYCLES: Final = 2
RETRIES: Final = 2
WAIT_S: Final = 4000.0
FAILS: Final = 0.03  # of a boot
BUILDS: Final = (RIGHT, OTHER, HANGS)  # of a release's files for a medium
MEDIA: Final = (EMMC, CARD)
MENDED_S: Final = 90.0
PATIENCE_S: Final = 400.0  # with a board that fails and is not in quarantine
TRIES: Final = 6  # of a wish for a board whose releases may be wrong; then a person looks into it
TESTS: Final = Path(__file__).resolve().parents[3] / "tests_perf"
PERSON: Final = "lena"
CI: Final = "ci"  # a program's, with a token of the site
PEOPLE: Final = ("max", "olga", CI)
SWITCHED_S: Final = 5.0
MEASURER: Final = pytest.StashKey[CycleRunSession]()
PUT_S: Final = 100.0  # in which a release is put on a board that is measured then
AGAIN_S: Final = (5.0, 20.0, 60.0)  # before a program is begun again
DONE: Final = {
    "lab run": frozenset({0, 1, runner.WORSE, runner.UNCONFIRMED}),
    "pytest": frozenset({0}),
    "lab provision": frozenset({0}),
}


@frozen
class Wish:
    """An order that somebody has for a board.

    Attributes:
        way: "lab run", "pytest" or "lab provision". label: the release of its runs, no other wish has it.
        release: is put on the board first; None: the board is measured as it is.
        labelled: the run's label is the wish's; else it is that of what is on the board.
        env: its environment; one that exists has a labgrid place.
        media: in the order in which they are written and measured.
        choice: boards with environments, any of which it may have (`lab run --type`); empty: its own.
        person: orders it.
        judged: its numbers are, after nights without a change; slower: they are, for sure.
    """

    label: str
    way: str
    board: str
    suites: tuple[str, ...]
    priority: int
    wait_s: float
    release: Release | None = None
    labelled: bool = True
    env: str = "/nowhere/env.yaml"
    judged: bool = False
    slower: bool = False
    media: tuple[str, ...] = (EMMC,)
    choice: Mapping[str, Path] = field(factory=dict)
    person: str = PERSON

    @property
    def order(self) -> Order:
        """As a job has it."""
        options: dict[str, Any] = {JUDGE: True} if self.judged else {}
        options |= {CHOICE: sorted(self.choice)} if self.choice else {}
        return Order(BOARD_TYPE, self.board, self.suites, self.env, self.label, CYCLES, options)


@define(eq=False)
class Board:
    """A board that can be measured; each boot has a number of its own.

    Attributes:
        media: by name. accesses: so far, by all programs. is_stuck: its power is not switched. mends: somebody will mend it.
    """

    board: str
    farm: Farm
    media: dict[str, Medium] = field(init=False)
    accesses: int = 0
    is_stuck: bool = False
    mends: bool = False

    def __attrs_post_init__(self) -> None:
        kinds = (EMMC, Emmc), (CARD, Medium)
        self.media = {name: kind(self.use, self.access, self.farm.pick_fault) for name, kind in kinds}

    def use(self) -> None:
        """Have the watch told of a use."""
        self.farm.watch.board_is_used(self.board)

    def access(self, seconds: float) -> None:
        """Take time with the board.

        Raises:
            BoardTransientError: another program switched it meanwhile.
        """
        self.use()
        self.accesses += 1
        mine = self.accesses
        self.farm.world.sleep(seconds)
        self.use()
        if self.accesses != mine:
            self.farm.faults += 1
            raise BoardTransientError("the board reset", failure="reset")

    def boot(self, name: str) -> str:
        """Power-cycle it; the version line of what a medium boots."""
        self.farm.check_place(self.board)
        self.farm.watch.boot_begins(self.board)
        for medium in self.media.values():
            medium.cut_power()
        self.access(self.farm.boot_s)
        self.farm.boots += 1
        if self.is_stuck:
            self.farm.faults += 1
            raise LabTransientError("its relay does not switch", failure="pdu_timeout")
        medium = self.media[name]
        if self.farm.pick_fault((1.0 - FAILS, FAILS)) or not medium.line:
            self.farm.faults += not medium.line
            raise BoardTransientError("it hung", failure="hang_kernel")
        medium.doubtful.discard(medium.boots)
        return medium.line


@define(eq=False)
class Strategy:
    """A board, as a session's strategy has it."""

    hardware: Board
    board: str = field(init=False)
    type: Any = field(factory=lambda: SimpleNamespace(name=BOARD_TYPE, title="a board", media=MEDIA))
    console: SilentConsole = field(factory=SilentConsole)
    medium: str = EMMC
    security: str = ""
    recovery: Recovery = field(factory=Recovery)
    software: dict[str, str] = field(factory=dict)
    expected: Mapping[str, Mapping[str, str]] = field(factory=dict)
    putting: Provisioner | None = None

    def __attrs_post_init__(self) -> None:
        self.board = self.hardware.board

    def boot(self, *, slower: bool = False) -> float:
        """Power-cycle it; its boot time, which no other boot has."""
        self.software = {"kernel": self.hardware.boot(self.medium)}
        check_expected(self)  # type: ignore[arg-type]
        return boot_time(self.hardware.farm.boots, slower=slower)

    def booted(self, medium: str, _questions: Mapping[str, str]) -> dict[str, str]:
        """Boot it, and ask what it is."""
        self.select_medium(medium)
        self.boot()
        return dict(self.software)

    def select_medium(self, medium: str) -> None:
        """Set its straps."""
        self.medium = medium

    def writers(self) -> dict[str, Writer]:
        """The writer of each medium."""
        return {name: medium.writer() for name, medium in self.hardware.media.items()}

    def transition(self, status: str) -> None:
        """It gets its release, or is switched off."""
        if status == "provisioned":
            assert self.putting is not None
            self.expected = {}
            self.putting.put(self)  # type: ignore[arg-type]
        self.hardware.farm.world.pause()


@define
class PlayedRun(BootRun):
    """Boardlab's loop of cycles around a played boot."""

    _line: Any = field(default=None, init=False)

    def pending(self, medium: str) -> list[int]:
        found, world = super().pending(medium), self.board.hardware.farm.world
        lingers_s, world.process.lingers_s = world.process.lingers_s, 0.0
        if found and lingers_s:
            world.felt["a session ends late"] += 1
            world.say(f"stands still for {lingers_s:g} s behind its look at its run")
            world.process.frozen_until_s = world.now_s + lingers_s
            world.disturb(world.process, world.process.frozen_until_s)
            world.pause()
        return found

    def try_cycle(self, item: str) -> Any:  # noqa: ARG002 - it is selected
        farm = self.board.hardware.farm
        value = self.board.boot(slower=self.run.kind == "boot" and self.run.release in farm.slower)
        if farm.unconfirming and "confirms" in self.run.provenance:
            farm.unconfirming -= 1
            farm.faults += 1
            raise BoardTransientError("it hung", failure="hang_kernel")
        return value

    def evidence(self, item: str, result: Any) -> AttemptResult:
        samples = () if result is None else (SampleRecord(METRIC, {"medium": item}, result, 0.001),)
        self._line = self.board.hardware.media[item].line
        return AttemptResult({"medium": item}, (), {}, samples)

    def report(self, item: str, cycle: int, result: Any) -> None:  # noqa: ARG002 - as of the loop
        watch = self.board.hardware.farm.watch
        watch.label_is_true(self.run, self._line)
        watch.sample_is_stored(result)


@define(eq=False)
class Farm:
    """The hosts, the boards, and what is wanted of these.

    Attributes:
        unconfirming: so many further boots of runs that confirm others fail.
        wrong: labels of releases that are not what they say. faults: of boards and media so far.
        worn: the boards' media lose writes. calm_after_s: nothing is struck then.
    """

    world: World
    results: Results
    watch: Any = None
    system: System = field(init=False)
    boards: dict[str, Board] = field(factory=dict)
    wishes: list[Wish] = field(factory=list)
    done: list[str] = field(factory=list)
    runs: dict[str, list[int]] = field(factory=dict)
    tries: Counter[str] = field(factory=Counter)
    codes: dict[str, int | None] = field(factory=dict)
    slower: set[str] = field(factory=set)
    boots: int = 0
    boot_s: float = 0.0
    unconfirming: int = 0
    wrong: set[str] = field(factory=set)
    faults: int = 0
    worn: bool = False
    calm_after_s: float = 0.0
    places: Places | None = None
    _holders: dict[tuple[str, str], PlaceHolders] = field(factory=dict, init=False)

    def prepare(self) -> None:
        """Boards, and what is wanted of them, by the schedule."""
        pick = self.world.choices.pick
        names = BOARDS[: 1 + pick((3.0, 1.0))]
        self.boards = {name: Board(name, self) for name in names}
        if pick((9.0, 1.0)):
            self.stick(self.boards[names[0]])
        kind = pick((3.0, 4.0, 2.0, 2.0))
        if kind in {1, 2}:
            (self._prepare_releases, self._prepare_judged)[kind - 1](names)
            return
        if kind:
            self.places = self.system.places = Places(self.world, names, self.world.hosts[-1])
        for wanted in range(1, 3 + pick((3.0, 1.0))):
            way = ("lab run", "lab provision", "pytest")[pick((3.0, 1.0, 1.0 * (not kind)))]
            suites = ("boot", "low_power") if way == "lab run" and pick((2.0, 1.0)) else ("boot",)
            priority = (PERSONS, TIMERS)[pick((1.0, 1.0))] if way == "lab run" else PERSONS
            board = names[pick([1.0] * len(names))]
            envs = {name: self.results.environment(name) if kind else Path(f"/nowhere/{name}.yaml") for name in names}
            choice = envs if way == "lab run" and len(names) > 1 and pick((1.0, 1.0)) else {}
            env = str(envs[board])
            person = (PERSON, CI)[pick((2.0, 1.0 * (way == "lab run")))]
            wish = Wish(f"r{wanted}", way, board, suites, priority, WAIT_S, env=env, choice=choice, person=person)
            self.wishes.append(wish)

    def _prepare_judged(self, names: Sequence[str]) -> None:
        """One release is slower on its board, and each order is judged."""
        pick = self.world.choices.pick
        for wanted in range(1, 2 + pick((3.0, 2.0))):
            suites = ("boot", "low_power") if pick((1.0, 1.0)) else ("boot",)
            board, slower = names[pick([1.0] * len(names))], wanted == 1
            self.wishes.append(
                Wish(f"r{wanted}", "lab run", board, suites, PERSONS, WAIT_S, judged=True, slower=slower)
            )
        self.slower = {wish.label for wish in self.wishes if wish.slower}
        self.unconfirming = (0, (RETRIES + 1) * (len(runner.CONFIRM_PAUSES_S) + 1))[pick((1.0, 1.0))]

    def _prepare_releases(self, names: Sequence[str]) -> None:
        """Releases are put on the boards, and what is on these is measured."""
        choices = self.world.choices
        self.worn = choices.pick((1.0, 2.0)) == 1
        for medium in (medium for board in self.boards.values() for medium in board.media.values()):
            medium.fates = FATES[self.worn]
            if self.worn and choices.pick((1.0, 4.0)):  # what is lost shows what was there before
                medium.parts = {name: kernel_of(FACTORY).encode() for name in medium.parts}
        for wanted in range(1, 4 + choices.pick((3.0, 1.0))):
            name, board = f"r{wanted}", names[choices.pick([1.0] * len(names))]
            kind = choices.pick((1.5, 2.5 * (wanted > 1), 0.5))  # put a release there, measure what is there, or both
            media = ((EMMC,), (CARD,), MEDIA, MEDIA[::-1])[choices.pick((4.0, 3.0, 1.0, 1.0))]
            written = [wish.media for wish in self.wishes if wish.board == board and wish.release is not None]
            if kind == 1 and written and choices.happens(0.9):
                media = written[-1]
            found = None
            if kind != 1:
                builds = {medium: BUILDS[choices.pick((6.0, 2.0, 2.0))] for medium in media}
                found = release_of(self.results.folder, name, builds)
                self.wrong.update([name] * any(builds.values()))
            way = "pytest" if kind else "lab provision"
            self.wishes.append(Wish(name, way, board, ("boot",), PERSONS, WAIT_S, found, labelled=False, media=media))

    def spawn(self, words: Sequence[str], env: Mapping[str, str]) -> tuple[str, Callable[[], int]]:
        """The pytest of a `lab run`, or a `lab power cycle` of the site."""
        if "power" in words:
            board = Path(words[-1]).stem
            return f"lab power cycle {board}", lambda: self._switch(board)
        given = dict(pairwise(words))
        kind = next(kind for kind in ("low_power", "boot") if any(f"test_{kind}.py" in word for word in words))
        resume = int(given["--lab-resume"]) if "--lab-resume" in given else None
        job = env[JOB_VARIABLE]
        release = given.get("--lab-release", "")
        confirms = int(given["--lab-confirms"]) if "--lab-confirms" in given else None
        return f"pytest of {job}", lambda: self.watch.session_ends(
            release, self.session(job, kind, release, resume, confirms)
        )

    def pick_fault(self, weights: Sequence[float]) -> int:
        """The fate of a board or a medium; 0: it does its part."""
        fate = self.world.choices.pick(weights)
        self.faults += fate > 0
        return fate

    # --- Programs ---

    def check_place(self, board: str) -> None:
        """Check the board's labgrid place, as before each power switch."""
        if self.places is not None:
            process = self.world.process
            holders = self._holders.setdefault((process.identity, board), PlaceHolders(played_target(board)))
            holders.check()

    def lab_run(self, wish: Wish) -> int:
        """`lab run --continue --request LABEL`; that of any board is begun with `--type`, and goes on with `--resume`."""
        store = self.results.store()
        book = job_queue.open_queue(store, person=wish.person, priority=wish.priority, rule=RULE, request=wish.label)
        ended = listing.job_of_request(store, wish.label)
        if ended is not None:
            return runner.report_again(store, ended, self.world.say)
        unfinished = self._begun(store, wish) if wish.choice else book.unfinished(wish.order)
        job = book.take_up(unfinished.id) if unfinished is not None else book.enqueue(wish.order)
        choice = wish.choice if job.started_at is None else {}
        return Runner(book, RunnerPaths(Path("/"), TESTS, None), self.world.say, choice=choice).run(job, wish.wait_s)

    def _begun(self, store: Store, wish: Wish) -> Job | None:
        """The job of an order for any board, as `lab jobs` shows it."""
        query = 'SELECT id FROM jobs WHERE "release" = ? AND state != ? ORDER BY id DESC LIMIT 1'
        rows = self.results.look(query, wish.label, "refused")
        return listing.job(store, rows[0][0]) if rows else None

    def session(self, called: str, kind: str, release: str, resume: int | None, confirms: int | None) -> int:
        """The pytest of a `lab run`, which holds the board."""
        self._end_once()
        store = self.results.store()
        config = self._config(store, listing.job(store, number(called)).board)
        try:
            plugin.take_board(config)
        except pytest.UsageError as error:
            self.world.say(str(error))
            return 4
        return self._measured(config, kind, release, resume, confirms)

    def pytest(self, wish: Wish) -> int:
        """A session of pytest that holds its board itself."""
        self._end_once()
        store = self.results.store()
        config = self._config(store, wish.board, wish.media)
        config.option.lab_release, config.option.lg_env = wish.label * wish.labelled, wish.order.env
        if wish.release is not None:
            config.stash[provisioning.RELEASE_KEY] = wish.release
        unfinished = self.unfinished(wish)
        try:
            plugin.take_board(config)
        except pytest.UsageError as error:
            self.world.say(str(error))
            return 4
        code = 1
        try:
            code = self._measured(config, "boot", wish, unfinished[0] if unfinished else None)
        finally:
            if self.world.process.alive:
                plugin.pytest_sessionfinish(SimpleNamespace(config=config), code)  # type: ignore[arg-type]
        return code

    def unfinished(self, wish: Wish) -> list[int]:
        """The runs of a session's wish that can be resumed, the last one first."""
        wanted = "SELECT id, \"release\" FROM runs WHERE status != 'completed' ORDER BY id DESC"
        its = self.runs.get(wish.label, [])
        return [
            row[0] for row in self.results.look(wanted) if (row[1] == wish.label if wish.labelled else row[0] in its)
        ]

    def provision(self, wish: Wish) -> int:
        """`lab provision`; without a release it holds the board for a while."""
        store = self.results.store()
        book = job_queue.open_queue(store, BY_PROVISION, person=PERSON, rule=RULE)
        place_wait = PlaceWait(self.system.monotonic() + wish.wait_s, self.world.say, lambda: False)
        try:
            with (
                lease.hold_board(book, wish.order, wish.wait_s, self.world.say, other_user) as job,
                hold_place(book, job, place_wait),
            ):
                board = Strategy(self.boards[wish.board])
                if wish.release is not None:
                    record, say = ProvisionBook(store), self.world.say
                    board.putting = Provisioner(wish.release, wish.media, lambda _progress: None, say, record, job.id)
                    board.transition("provisioned")
                for _ in range(3 * (wish.release is None)):
                    board.boot()
        except BusyBoardError as error:
            self.world.say(str(error))
            return runner.BUSY
        return 0

    def check(self, board: Board) -> int:
        """`lab health BOARD --check`, of a person who mends the board."""
        store = self.results.store()
        book = job_queue.open_queue(store, BY_HEALTH, person=PERSON, rule=RULE)
        order = Order(BOARD_TYPE, board.board, ("health",), "", "", None)
        try:
            with lease.hold_board(book, order, WAIT_S, self.world.say, other_user) as job:
                board.is_stuck = False
                parts = tuple(CheckedPart(name, "ok", "", "", "", "") for name in ("power", "console"))
                HealthBook(store).record(BoardCheck(board.board, BOARD_TYPE, "lab", store.now(), parts, job_id=job.id))
        except BusyBoardError as error:
            self.world.say(str(error))
            return runner.BUSY
        return 0

    def reserve(self, board: str, person: str, hours: float) -> int:
        """Somebody else reserves a board for a while; a token may have one reservation."""
        most = 1 if person == CI else math.inf
        try:
            ReservationBook(self.results.store()).reserve(board, person, "a new PMIC", hours, most=most)
        except ConfigurationError as error:
            self.world.say(str(error))
        return 0

    def end_reservation(self, board: str, person: str) -> int:
        """`lab reserve --end`, or the same of the site."""
        try:
            ReservationBook(self.results.store()).end(board, "reserved", person, own=person == CI)
        except ConfigurationError as error:
            self.world.say(str(error))
        return 0

    def cancel(self, job_id: int, person: str) -> int:
        """`lab jobs cancel`, or the same of the site."""
        book = job_queue.open_queue(self.results.store(), person=person, rule=RULE)
        try:
            book.cancel(job_id, person, own=person == CI)
        except ConfigurationError as error:
            self.world.say(str(error))
            if person != CI or book.job(job_id).person == CI:
                self.watch.cancel_is_refused(job_id)
        return 0

    def switch_power(self, board: str) -> int:
        """An operator switches a board off and on in a browser; the site lives on."""
        site: Any = SimpleNamespace(farm=None, runtime=None, home=lambda: Path("/"), database=lambda: None)
        there = BoardNow(board, BOARD_TYPE, env=f"/nowhere/{board}.yaml")
        try:
            job_control.power_cycle(site, self.results.store(), "olga", there)
        except BoardlabError as error:
            self.world.say(str(error))
        self.watch.over.add(self.world.process.identity)
        self.world.wait(lambda: len(self.done) == len(self.wishes))
        return 0

    def _switch(self, board: str) -> int:
        self.boards[board].access(SWITCHED_S)
        return 0

    # --- A session ---

    def _end_once(self) -> None:
        handlers = self.world.process.handlers

        def end(_number: int, _frame: object) -> None:
            handlers[signal.SIGTERM] = signal.SIG_IGN
            raise KeyboardInterrupt

        handlers[signal.SIGTERM] = end

    def _config(self, store: Store, board: str, media: Sequence[str] = (EMMC,)) -> Any:
        given = {option.dest: None for option in options.TABLE}
        option = SimpleNamespace(
            lab_leave_on=False, lab_ignore_reservation=False, lab_release="", lab_cycles=CYCLES, lg_env="", **given
        )
        env = SimpleNamespace(config=SimpleNamespace(get_option=lambda _name, default: default))
        items = [SimpleNamespace(fixturenames=("boot_measurer",))]
        stash = {STORE_KEY: store, STRATEGY_KEY: Strategy(self.boards[board]), ITEMS_KEY: items, MEDIA_KEY: [*media]}
        stash[LABGRID_ENV_KEY] = env
        reporter = SimpleNamespace(write_line=self.world.say)
        terminal = SimpleNamespace(get_plugin={"terminalreporter": reporter}.get)
        return SimpleNamespace(stash=stash, option=option, pluginmanager=terminal)

    def _measured(
        self, config: Any, kind: str, wish: Wish | str, resume: int | None, confirms: int | None = None
    ) -> int:
        """Put the release on the board, if there is one, and measure; the session's exit code.

        Args:
            wish: or the label of a `lab run`.
        """
        store, board, say = config.stash[STORE_KEY], config.stash[STRATEGY_KEY], self.world.say
        job, media = config.stash.get(JOB_KEY), config.stash[MEDIA_KEY]
        if confirms is not None:
            self.watch.confirmation_begins(confirms)

        def begin(_config: Any) -> CycleRunSession:
            if resume is not None:
                check_resumed(store, board, media, store.run(resume), say)
                listing.end_pause(store, resume)
                run: Run = store.reopen_run(resume)
            else:
                plan = {"cycles": CYCLES, "media": media}
                name, _ = (wish, {}) if isinstance(wish, str) else label(config, store, board, media, say)
                about = provenance(name) | ({} if confirms is None else {"confirms": confirms})
                run = store.begin_run(kind, BOARD_TYPE, board.board, name, plan=plan, provenance=about, job_id=job)
                if isinstance(wish, Wish):
                    self.runs.setdefault(wish.label, []).append(run.id)
            config.stash[RUNS_KEY] = [run.id]
            clock = SimpleNamespace(name="simulated", now_ns=lambda: int(self.system.monotonic() * 1e9))
            heeds = plugin.before_cycle(config, run.id)
            progress = Progress(lambda _line: None, clock, 0)
            made = PlayedRun(store, run, board, progress, clock, self.world.sleep, RETRIES, heeds)
            return CycleRunSession(made)

        sessions = session_of(config, MEASURER, begin, lambda _name, _value: None)
        code = 1
        try:
            provisioning.provision(config)
            measurer = next(sessions)
            try:
                code = self._tested(measurer)
            finally:
                if self.world.process.alive:
                    next(sessions, None)
        except KeyboardInterrupt:
            code = pytest.ExitCode.INTERRUPTED
        except pytest.exit.Exception as error:
            code = error.returncode or 1
        return int(code)

    def _tested(self, measurer: CycleRunSession) -> int:
        for item in measurer.run.plan["media"]:
            try:
                measurer.measure(item)
            except pytest.fail.Exception as error:
                self.world.say(str(error))
                return pytest.ExitCode.TESTS_FAILED
        return pytest.ExitCode.OK

    # --- Who begins programs again ---

    def operate(self, wish: Wish) -> int:
        """Have a wish fulfilled, whatever is killed meanwhile."""
        world, body = self.world, {"lab run": self.lab_run, "pytest": self.pytest, "lab provision": self.provision}
        host = world.hosts[world.choices.pick([1.0] * len(world.hosts))]
        if not wish.labelled and wish.release is None and world.choices.pick((1.0, 2.0)):
            world.wait(lambda: self._is_written(wish), PUT_S)
        while True:
            while (until_s := max(host.down_until_s, host.frozen_until_s)) > world.now_s:
                world.sleep(until_s - world.now_s)
            before = self.faults if world.is_calm else None
            process = world.start(
                f"{wish.way} {wish.label}", host, lambda: self.watch.program_ends(wish, body[wish.way](wish))
            )
            world.wait(lambda process=process: not process.alive)
            if before == self.faults and wish.label not in self.wrong:
                self.watch.program_has_ended(wish, process.code)
            self.tries[wish.label] += 1
            self.codes[wish.label] = process.code
            is_killed = process.code is not None and process.code < 0
            gives_up = self.worn and wish.way == "lab provision" and is_killed and world.choices.happens(0.9)
            if process.code in DONE[wish.way] or self._is_over(wish) or gives_up:
                self.done.append(wish.label)
                self.results.keep_commits()
                return 0
            is_refused = process.code == pytest.ExitCode.USAGE_ERROR
            world.sleep(AGAIN_S[-1 if is_refused else world.choices.pick([1.0] * len(AGAIN_S))])

    def _is_written(self, wish: Wish) -> bool:
        """True if nobody is about to put a release on a wish's board."""
        return all(
            put.label in self.done for put in self.wishes if put.board == wish.board and put.release is not None
        )

    def stick(self, board: Board) -> None:
        """A board's power is not switched from now on, until a check mends it."""
        self.world.say(f"the relay of {board.board} sticks")
        board.is_stuck = board.mends = True
        self.world.start(f"{PERSON} for {board.board}", Host("a desk"), lambda: self.mend(board))

    def mend(self, board: Board) -> int:
        """Have a board with a fault checked in each quarantine, at last without one, until all is over."""
        world = self.world
        while len(self.done) < len(self.wishes):
            world.sleep(MENDED_S)
            host = world.hosts[0]
            if max(host.down_until_s, host.frozen_until_s) > world.now_s or not (
                self.watch.quarantined(board.board) or (board.is_stuck and world.now_s > START_S + PATIENCE_S)
            ):
                continue
            world.felt["a quarantine"] += self.watch.quarantined(board.board)
            process = world.start(f"lab health {board.board}", host, lambda: self.check(board))
            world.wait(lambda process=process: not process.alive)
        return 0

    def keep_janitor(self, host: Host) -> int:
        """Have the janitor of places run, whatever is killed, until each place is free behind the last wish."""
        world, places = self.world, self.places
        assert places is not None
        while any(places.holders.values()) or len(self.done) < len(self.wishes):
            while (until_s := max(host.down_until_s, host.frozen_until_s)) > world.now_s:
                world.sleep(until_s - world.now_s)
            process = world.start(
                "janitor",
                host,
                lambda: tidy(places, self.results, self.system.monotonic, lambda: len(self.done) == len(self.wishes)),
            )
            world.wait(lambda process=process: not process.alive)
            world.sleep(AGAIN_S[0])
        return 0

    def _is_over(self, wish: Wish) -> bool:
        if not wish.labelled and self.tries[wish.label] >= TRIES:
            return True
        states = [row[0] for row in self.results.look('SELECT state FROM jobs WHERE "release" = ?', wish.label)]
        runs = [
            row[1]
            for row in self.results.look("SELECT id, status FROM runs")
            if row[0] in self.runs.get(wish.label, ())
        ]
        return "cancelled" in states or (wish.way == "pytest" and "completed" in runs)
