"""The lab that freeze.py freezes: simulated boards, the console server, and a process that measures each board.

`python -m support.freeze_lab ENV DATABASE` is that process. It is what `pytest tests_perf/test_boot.py` does, without pytest: labgrid's target,
BoardStrategy, BootRun and a results store. A line on stdin is a command: `boot` measures one more cycle and prints the attempt as a line of JSON;
`leave` gives the console back, and `enter` takes it again, from a console server that it finds or starts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from labgrid.environment import Environment

from lab.console import Chunk, ConsoleClient
from lab.errors import BoardlabError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.host.runtime import recordings_dir, socket_path
from lab.results import Attempt, Store, open_store
from lab.run.boot import BootRun
from lab.run.progress import Progress
from lab.virtual.state import BenchBoard, BenchState
from support.frozen_host import PAUSED, PAUSED_AND_SET, SUSPENDED, Shim
from support.virtual_bench import running_bench

TESTS = Path(__file__).parents[1]
SERVER, DISK, BOARDS, SESSION = "console server", "disk", "bench", "session"
HOST, MACHINE, MACHINE_SET, CLOCK = "suspended host", "paused machine", "paused machine, then set", "clock"
CLOCKS_BEHIND: Mapping[str, tuple[int, ...]] = {
    HOST: SUSPENDED,
    MACHINE: PAUSED,
    MACHINE_SET: PAUSED_AND_SET,
    CLOCK: SUSPENDED,
}
KINDS = (SERVER, DISK, BOARDS, SESSION, HOST, MACHINE, MACHINE_SET, CLOCK)
PATIENCE_S = 120.0  # for a boot; no time limit of its own is larger
POLL_S = 0.001
OFF_SILENCE_S = 0.1  # a simulated board is off when it is told so
MEDIUM = "sd"
TAIL_BYTES = 256  # of a console that are kept to find a text in


@frozen
class Trigger:
    """When a freeze begins: a board's console shows a text, then so many more bytes, and then so much time passes."""

    board: int
    text: bytes
    more_bytes: int = 0
    delay_s: float = 0.0


@frozen
class Frozen:
    """A freeze that took place, on CLOCK_MONOTONIC_RAW."""

    begin_ns: int
    end_ns: int


@frozen
class Number:
    """One number of an attempt.

    Attributes:
        metric, stage: which it is; only stages of a boot have the second.
    """

    metric: str
    stage: str
    value_s: float
    uncertainty_s: float
    flags: frozenset[str]


@frozen
class Answer:
    """What a session says of its attempt at a boot; `clocks`: what it keeps of how they agreed."""

    outcome: str
    message: str
    clocks: Mapping[str, object]
    numbers: tuple[Number, ...] = field(converter=tuple)


@define(eq=False)
class Watch:
    """A board's console as seen by who freezes: the end of what came, and how much came since a text."""

    client: ConsoleClient
    tail: bytes = b""
    wanted: bytes = b""
    since_bytes: int | None = None

    def expect(self, text: bytes) -> None:
        """Look out for a text from now on."""
        self.wanted, self.since_bytes, self.tail = text, None, b""

    def take(self) -> None:
        """Read what is there."""
        while (event := self.client.read_event(0)) is not None:
            if not isinstance(event, Chunk):
                continue
            self.tail = self.tail[-TAIL_BYTES:] + event.data
            if self.since_bytes is not None:
                self.since_bytes += len(event.data)
            elif self.wanted and (found := re.search(self.wanted, self.tail)):
                self.since_bytes = len(self.tail) - found.end()


@define(eq=False)
class Session:
    """The process that measures one board."""

    board: BenchBoard
    process: subprocess.Popen[str]

    def tell(self, command: str) -> None:
        """Give it a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert ready, f"{self.board.name}: the session says nothing"
        line = self.process.stdout.readline()
        assert line, f"{self.board.name}: the session has ended"
        return line

    def result(self) -> Answer:
        """What came of the boot that it was told to measure."""
        said = json.loads(self.answer())
        numbers = [Number(**{**number, "flags": frozenset(number["flags"])}) for number in said["numbers"]]
        return Answer(said["outcome"], said["message"], said["clocks"], tuple(numbers))


@define(eq=False)
class FreezeLab:
    """Everything that can be frozen.

    Attributes:
        folder: of the bench, the console server's runtime folder and the results.
        state: the bench.
    """

    folder: Path
    state: BenchState
    shim: Shim
    sessions: list[Session]
    _watches: list[Watch] = field(factory=list, init=False)

    @property
    def runtime(self) -> Path:
        """The console server's."""
        return self.folder / "run"

    @property
    def server_pid(self) -> int:
        """The console server."""
        return int((self.runtime / "console.lock").read_text(encoding="ascii"))

    def look(self) -> None:
        """Read the consoles beside the sessions, which have opened them."""
        for watch in self._watches:
            watch.client.close()
        self._watches = []
        address = socket_path(self.runtime)
        with ConsoleClient(address) as asking:
            names = {str(Path(port.info.meta.device)): port.info.name for port in asking.status().ports}
        for session in self.sessions:
            client = ConsoleClient(address)
            client.attach(names[next(iter(session.board.uarts.values()))], write=False)
            self._watches.append(Watch(client))

    def boot(self, kind: str, seconds: float, trigger: Trigger) -> tuple[Frozen | None, list[Answer]]:
        """Boot all boards, and freeze something on the way; None: the trigger did not come."""
        for watch in self._watches:
            watch.expect(b"")
        self._watches[trigger.board].expect(trigger.text)
        for session in self.sessions:
            session.tell("boot")
        frozen = None
        deadline = time.monotonic() + PATIENCE_S
        waiting = {session.process.stdout: session for session in self.sessions}
        answers: dict[str, Answer] = {}
        while waiting:
            assert time.monotonic() < deadline, f"no end of {[s.board.name for s in waiting.values()]}"
            ready, _, _ = select.select([*waiting, *(watch.client for watch in self._watches)], [], [], PATIENCE_S)
            for watch in self._watches:
                watch.take()
            came = self._watches[trigger.board].since_bytes
            if frozen is None and came is not None and came >= trigger.more_bytes:
                time.sleep(trigger.delay_s)
                frozen = self.freeze(kind, seconds)
            for output in [one for one in ready if one in waiting]:
                session = waiting.pop(output)
                answers[session.board.name] = session.result()
        return frozen, [answers[session.board.name] for session in self.sessions]

    def freeze(self, kind: str, seconds: float) -> Frozen:
        """Freeze something for so long."""
        clock = MonotonicRaw()
        sessions = [session.process.pid for session in self.sessions]
        host = [self.server_pid, *sessions]
        stops = {SERVER: host[:1], BOARDS: [self.state.pid], SESSION: sessions}
        stopped = {**stops, HOST: host, MACHINE: host, MACHINE_SET: host}.get(kind, [])
        _stop(stopped)
        begin_ns = clock.now_ns()
        try:
            if kind == DISK:
                self.shim.block_disk(blocked=True)
            elif kind == CLOCK:
                self.shim.stop_clocks(CLOCKS_BEHIND[kind])
            time.sleep(seconds)
            end_ns = clock.now_ns()
            if kind == CLOCK:
                self.shim.start_clocks(CLOCKS_BEHIND[kind])
            elif kind in CLOCKS_BEHIND:
                self.shim.set_back(CLOCKS_BEHIND[kind], end_ns - begin_ns)
        finally:
            self.shim.block_disk(blocked=False)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        return Frozen(begin_ns, end_ns)

    def keep(self, folder: Path) -> None:
        """Copy what was recorded so far, and the truth beside it."""
        shutil.copytree(recordings_dir(self.runtime), folder / "recordings")
        for board in self.state.boards:
            shutil.copy(board.truth, folder / f"{board.name}-truth.log")

    def renew(self) -> None:
        """A new console server. The timers of the old one do not know that its clocks have jumped; a real host's do."""
        for session in self.sessions:
            session.tell("leave")
        for session in self.sessions:
            assert session.answer() == "left\n"
        _end_server(self.runtime)
        for session in self.sessions:
            session.tell("enter")
        for session in self.sessions:
            assert session.answer() == "entered\n"
        self.look()


@contextlib.contextmanager
def freeze_lab(boards: int, board_type: str, time_scale: float, seed: int) -> Iterator[FreezeLab]:
    """A lab with these boards; everything of it ends with the context."""
    words = ["--type", board_type, "--count", str(boards), "--time-scale", str(time_scale), "--seed", str(seed)]
    sessions: list[Session] = []
    with (
        tempfile.TemporaryDirectory(prefix="freeze-") as name,
        running_bench(Path(name) / "bench", "sim", *words) as bench,
    ):
        folder = Path(name)
        shim = Shim(folder)
        try:
            sessions += [_session(folder, board, shim) for board in bench.state.boards]
            for session in sessions:
                assert session.answer() == "ready\n"
            lab = FreezeLab(folder, bench.state, shim, sessions)
            lab.look()
            yield lab
        finally:
            shim.block_disk(blocked=False)
            for session in sessions:
                session.process.kill()
                session.process.wait()
            _end_server(folder / "run")
            shim.close()


def _session(folder: Path, board: BenchBoard, shim: Shim) -> Session:
    env = folder / "bench" / board.name / "env.yaml"
    command = [sys.executable, "-m", "support.freeze_lab", str(env), str(folder / f"{board.name}.db")]
    environ = {**shim.environ, "BOARDLAB_RUNTIME": str(folder / "run")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (folder / f"{board.name}.log").open("wb") as log:
        return Session(
            board, subprocess.Popen(command, text=True, bufsize=0, cwd=TESTS, stderr=log, env=environ, **pipes)
        )


def _stop(pids: Sequence[int]) -> None:
    """Stop processes, and see that they stand."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    while not all(_state(pid) == "T" for pid in pids):
        time.sleep(POLL_S)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def _end_server(runtime: Path) -> None:
    """End the console server, and wait until it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, LabTransientError):
        process = os.pidfd_open(int((runtime / "console.lock").read_text(encoding="ascii")))
        try:
            signal.pidfd_send_signal(process, signal.SIGTERM)
            assert select.select([process], [], [], PATIENCE_S)[0], "the console server did not end"
        finally:
            os.close(process)


def main() -> None:
    """Measure as stdin says."""
    env = Environment(config_file=sys.argv[1])
    database = Path(sys.argv[2])
    strategy: Any = env.get_target().get_strategy()
    limits = evolve(strategy.type.timeouts, off_silence_s=OFF_SILENCE_S, discharge_s=OFF_SILENCE_S)
    strategy.type = evolve(strategy.type, timeouts=limits)
    strategy.shell = None  # nobody logs in to see which board it is: that is after the boot
    with open_store(f"sqlite:///{database}") as store:
        strategy.check_lab()
        print("ready", flush=True)
        for command in sys.stdin:
            if command == "leave\n":
                strategy.target.deactivate(strategy.console)
                print("left", flush=True)
            elif command == "enter\n":
                strategy.check_lab()
                print("entered", flush=True)
            else:
                print(json.dumps(_described(_boot(store, strategy))), flush=True)
    env.cleanup()


def _boot(store: Store, strategy: Any) -> Attempt:
    """One attempt at one cycle, in a run of its own: what another one did is no reason to refuse this one."""
    clock = MonotonicRaw()
    plan = {"cycles": 1, "media": [MEDIUM]}
    run = store.begin_run("boot", strategy.board_type, strategy.board, "", plan=plan, provenance={"virtual": True})
    progress = Progress(lambda _line: None, clock, total=1)
    try:
        BootRun(store, run, strategy, progress, clock, time.sleep, 0).measure(MEDIUM)
    except BoardlabError as error:
        if not store.attempts(run.id):
            raise AssertionError(f"an attempt was not recorded: {error}") from error
    (attempt,) = store.attempts(run.id)
    return attempt


def _described(attempt: Attempt) -> dict[str, object]:
    return {
        "outcome": attempt.outcome,
        "message": attempt.message,
        "clocks": {name: value for name, value in attempt.details.items() if name.startswith("clock_")},
        "numbers": [
            {
                "metric": sample.metric,
                "stage": sample.params.get("stage", ""),
                "value_s": sample.value,
                "uncertainty_s": sample.uncertainty,
                "flags": sorted(sample.flags),
            }
            for sample in attempt.samples
        ],
    }


if __name__ == "__main__":
    main()
