"""The lab of the chaos test: simulated boards, their switches, the disks, and every process of it."""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Literal

import psutil
import requests
from attrs import define, field, frozen

from lab.host.clock import MonotonicRaw
from lab.results import open_store
from lab.virtual.ports import LOOPBACK, free_port
from lab.virtual.state import BenchState, running

ROOT = Path(__file__).parents[2]
LAB = Path(sys.executable).with_name("lab")
BOARD_TYPE = "am62xx_sk"
START_S, UP_S, DOWN_S = 180.0, 60.0, 40.0
ASK_S = 2.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
ROOM_BYTES = 1 << 30  # an hour of eight boards needs a third of it
MARK = "BOARDLAB_CHAOS_MOUNTS"  # set where we are in our own namespace
# As root; else as a user whom the kernel lets be root over mounts of its own (user_namespaces(7)).
_WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))
_TRIES = 5
Mood = Literal["well", "refusing", "hanging", "failing"]
_PATIENCE_S = 120.0  # longer than anybody waits for a switch


def with_own_mounts() -> None:
    """Start this program again where it may mount, and where what it mounts goes away with it.

    Raises:
        SystemExit: the host lets us mount nothing.
    """
    if os.environ.get(MARK):
        return
    for way in _WAYS:
        trial = subprocess.run([*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=False, capture_output=True)
        if trial.returncode == 0:
            os.environ[MARK] = "1"
            os.execvp(way[0], [*way, sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program
    raise SystemExit(
        "the chaos test fills disks of its own, and this host lets it mount none. Run it as root, in a container with "
        "--cap-add SYS_ADMIN, or allow user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    )


@define
class Disk:
    """A file system at `path`; while it is `full`, every write that needs a further page fails with ENOSPC."""

    path: Path
    full: bool = field(default=False, init=False)

    def mount(self) -> None:
        """Make it."""
        self.path.mkdir()
        _mount("-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=700", "tmpfs", str(self.path))

    def fill(self, spare_bytes: int) -> None:
        """Leave so much room, in whole pages, that others may use up meanwhile."""
        self.full = True
        for _ in range(_TRIES - 1):
            try:
                self._resize(self.used_bytes + spare_bytes)
            except subprocess.CalledProcessError:  # somebody wrote since we looked
                continue
            return
        self._resize(self.used_bytes + spare_bytes + (1 << 16))

    def empty(self) -> None:
        """Have room again."""
        self._resize(ROOM_BYTES)
        self.full = False

    def unmount(self) -> str:
        """Give it back, whatever else; why that did not go at once, or nothing."""
        done = subprocess.run(["umount", str(self.path)], check=False, capture_output=True, text=True)
        if done.returncode:
            subprocess.run(["umount", "--lazy", str(self.path)], check=False, capture_output=True)
        return done.stderr.strip()

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        found = os.statvfs(self.path)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def _resize(self, size: int) -> None:
        _mount("-o", f"remount,size={max(size, 1 << 12)}", str(self.path))  # 0 would mean: no limit


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def mounts_below(folder: Path) -> list[str]:
    """The mount points in this folder."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [point for line in lines if (point := line.split()[4]).startswith(f"{folder}/")]


class Switch:
    """One address for many outlets or straps, in front of the bench's own.

    `refusing` closes the port. `hanging` takes requests, and passes them on when it is over: whoever asked may have given
    up by then, as with a real switch that obeys late. `failing` answers with HTTP 500.
    """

    def __init__(self, upstream: int) -> None:
        """Listen, in threads of our own; `upstream` is a port of loopback."""
        self.port = free_port()
        self.mood: Mood = "well"
        self._upstream = upstream
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._server: ThreadingHTTPServer | None = None
        self._listen()

    def become(self, mood: Mood) -> None:
        """Change the mood; what hangs goes on."""
        self.mood = mood
        if mood == "hanging":
            self._goes_on.clear()
        else:
            self._goes_on.set()
        if mood == "refusing":
            self.close()
        elif self._server is None:
            self._listen()

    def close(self) -> None:
        """Listen no more."""
        self._goes_on.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def pass_on(self, method: str, path: str, body: bytes) -> requests.Response | None:
        """The answer to a request; None: the connection ends without one."""
        if self.mood == "failing":
            failed = requests.Response()
            failed.status_code = HTTPStatus.INTERNAL_SERVER_ERROR
            return failed
        self._goes_on.wait(_PATIENCE_S)
        try:
            with requests.Session() as session:
                session.trust_env = False
                url = f"http://{LOOPBACK}:{self._upstream}{path}"
                return session.request(method, url, data=body, timeout=_PATIENCE_S)
        except requests.RequestException:
            return None

    def _listen(self) -> None:
        switch = self

        class Handler(_Handler):
            behind = switch

        server = _Server((LOOPBACK, self.port), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._server = server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    behind: ClassVar[Switch]

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_PUT(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _pass_on(self, body: bytes) -> None:
        answer = self.behind.pass_on(self.command, self.path, body)
        if answer is None:
            return
        try:
            self.send_response_only(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content or b"")))
            self.end_headers()
            self.wfile.write(answer.content or b"")
        except OSError:
            return  # whoever asked has gone

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@frozen
class Life:
    """What a board said while one bench lived; `killed_ns` (CLOCK_MONOTONIC_RAW): when it was killed, if it was."""

    truth: Path
    killed_ns: int | None


@frozen(order=True)
class _Later:
    at_s: float
    number: int
    action: Callable[[], None] = field(order=False)


@define
class ChaosLab:
    """A bench of simulated boards, and all that measures them, in one folder.

    Attributes:
        recordings: the disk of the console server's folder. results: that of the store.
        pdu, straps: what the boards' environments call power switch and strap relays.
        frozen: processes that stand still.
        truths: what the boards of benches that have died said, by board.
    """

    home: Path
    count: int
    time_scale: float
    seed: int
    recordings: Disk = field(init=False)
    results: Disk = field(init=False)
    pdu: Switch = field(init=False)
    straps: Switch = field(init=False)
    environ: dict[str, str] = field(init=False)
    frozen: set[psutil.Process] = field(factory=set, init=False)
    truths: dict[str, list[Life]] = field(factory=dict, init=False)
    _ports: tuple[int, int] = field(init=False)
    _own: list[subprocess.Popen[bytes]] = field(factory=list, init=False)
    _starting: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _wanted_at_s: float = field(default=0.0, init=False)
    _killed_ns: int | None = field(default=None, init=False)
    _later: list[_Later] = field(factory=list, init=False)
    _order: itertools.count[int] = field(factory=itertools.count, init=False)

    def __attrs_post_init__(self) -> None:
        self.recordings, self.results = Disk(self.home / "run"), Disk(self.home / "results")
        self._ports = free_port(), free_port()
        self.pdu, self.straps = map(Switch, self._ports)
        self.environ = {
            **os.environ,
            "BOARDLAB_RUNTIME": str(self.recordings.path),
            "LAB_DB": f"sqlite:///{self.database}",
            "TMPDIR": str(self.home / "tmp"),
        }

    @property
    def boards(self) -> list[str]:
        """The boards' names."""
        return [f"{BOARD_TYPE}-{number}" for number in range(1, self.count + 1)]

    @property
    def disks(self) -> tuple[Disk, Disk]:
        """Those that can be full."""
        return self.recordings, self.results

    @property
    def database(self) -> Path:
        """The results."""
        return self.results.path / "results.db"

    @property
    def bench(self) -> Path:
        """The bench's folder."""
        return self.home / "bench"

    @property
    def up_log(self) -> Path:
        """What `lab virtual up` said, each time."""
        return self.home / "up.log"

    @property
    def listening(self) -> tuple[int, ...]:
        """The ports of the lab's servers."""
        return (*self._ports, self.pdu.port, self.straps.port)

    def env(self, board: str) -> Path:
        """A board's environment, by way of the switches of ours."""
        return self.home / "env" / f"{board}.yaml"

    def start(self) -> None:
        """Bring everything up that is up before a person measures."""
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans become ours, so that none is overlooked
        for disk in self.disks:
            disk.mount()
        for name in ("tmp", "env", "truth"):
            (self.home / name).mkdir()
        with open_store(self.environ["LAB_DB"]):
            pass
        deadline = time.monotonic() + START_S
        while (state := self.state()) is None:
            if time.monotonic() >= deadline:
                said = self.up_log.read_text(encoding="utf-8", errors="replace")
                raise SystemExit(f"the bench did not come up in {START_S:g} s; `lab virtual up` said:\n{said}")
            self.tend()
            time.sleep(0.05)
        for board in state.boards:
            text = (self.bench / board.name / "env.yaml").read_text(encoding="utf-8")
            for own, port in ((self.pdu, self._ports[0]), (self.straps, self._ports[1])):
                text = text.replace(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{own.port}")
            self.env(board.name).write_text(text, encoding="utf-8")

    def tend(self) -> None:
        """What goes on by itself: strikes end, a bench that has died is started again, the dead are buried."""
        while self._later and self._later[0].at_s <= time.monotonic():
            heapq.heappop(self._later).action()
        self._own = [process for process in self._own if process.poll() is None]
        own = {process.pid for process in self._own}
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.pid not in own and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)
        if self._starting is not None:
            if self._starting.poll() is None:
                return
            self._starting = None
        if time.monotonic() >= self._wanted_at_s and self.state() is None:
            self._keep_truth()
            self._starting = self._up()

    def popen(self, command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
        """Start a program of the lab; what it says goes to the end of `log`."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, env=self.environ, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._own.append(process)
        return process

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        heapq.heappush(self._later, _Later(time.monotonic() + seconds, next(self._order), action))

    def heal(self) -> None:
        """End everything that was to end later, and all faults of the boards."""
        while self._later:
            heapq.heappop(self._later).action()
        deadline = time.monotonic() + UP_S
        for board in self.boards:
            while not self.fault(board, {}) and time.monotonic() < deadline:
                self.tend()
                time.sleep(0.05)

    def state(self) -> BenchState | None:
        """The bench, when it runs."""
        return running(self.bench) if self.bench.exists() else None

    def fault(self, board: str, words: dict[str, str]) -> bool:
        """Plan a fault of a board; without words all are forgotten. Whether the bench has heard it."""
        url = f"http://{LOOPBACK}:{self._ports[1]}/boards/{board}/faults"
        try:
            with requests.Session() as session:
                session.trust_env = False
                return session.put(url, params=words, timeout=ASK_S).ok
        except requests.RequestException:
            return False

    def processes(self, *words: str) -> list[psutil.Process]:
        """Living descendants of ours whose command line has all these words."""
        found = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()  # a zombie has none
                if line and all(any(word in part for part in line) for word in words):
                    found.append(process)
        return found

    def freeze(self, process: psutil.Process, seconds: float) -> None:
        """Stop a process, and let it go on later."""
        process.suspend()
        self.frozen.add(process)

        def thaw() -> None:
            self.frozen.discard(process)
            with contextlib.suppress(psutil.Error):
                process.resume()

        self.later(seconds, thaw)

    def bench_was_killed(self, pause_s: float) -> None:
        """It is started again after so many seconds."""
        self._wanted_at_s = time.monotonic() + pause_s
        self._killed_ns = MonotonicRaw().now_ns()

    def stop(self) -> list[str]:
        """End what a person ends when the measuring is over; what did not end so."""
        wrong = []
        for words in (("console", "stop"), ("virtual", "down", "--dir", str(self.bench))):
            done = subprocess.run(
                [LAB, *words], env=self.environ, cwd=ROOT, check=False, capture_output=True, text=True
            )
            if done.returncode:
                wrong.append(f"`lab {' '.join(words[:2])}` failed: {done.stderr.strip() or done.stdout.strip()}")
        self._keep_truth()
        self.pdu.close()
        self.straps.close()
        deadline = time.monotonic() + DOWN_S
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                wrong.append(f"process {process.pid} was left running: {' '.join(process.cmdline())}")
                process.kill()
        return wrong

    def end(self) -> None:
        """Kill whatever is there still, e.g. when something of ours has failed."""
        for switch in (self.pdu, self.straps):
            switch.close()
        while left := self.processes():
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.05)

    def _up(self) -> subprocess.Popen[bytes]:
        pdu, switch = self._ports
        words: Sequence[str | Path] = (
            *("--type", BOARD_TYPE, "--count", str(self.count), "--time-scale", str(self.time_scale)),
            *("--seed", str(self.seed), "--dir", self.bench),
            *("--pdu-port", str(pdu), "--switch-port", str(switch)),
        )
        return self.popen([LAB, "virtual", "up", "sim", *words], self.up_log)

    def _keep_truth(self) -> None:
        """Put aside what the boards of a dead bench said: the next one begins anew."""
        for board in self.boards:
            log = self.bench / board / "truth.log"
            if log.exists():
                kept = self.truths.setdefault(board, [])
                kept.append(Life(log.rename(self.home / "truth" / f"{board}.{len(kept)}.log"), self._killed_ns))
        self._killed_ns = None
