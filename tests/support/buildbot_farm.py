"""A real Buildbot over a farm of simulated boards, and who is told of its builds: an HTTP server on loopback."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from attrs import define, field, frozen

from lab.farm import buildbot, config
from lab.farm.local import LocalFarm
from lab.results import open_store
from lab.virtual.ports import free_port

LAB = Path(sys.executable).with_name("lab")
DEADLINE_S = 300
POLL_S = 0.2
TRIES = 3
TOKENS = {"github": "gh-secret", "gitlab": "gl-secret", "webhook": "wh-secret"}
# Orders that need no board are played here, so that what Buildbot makes of their ends is seen at once. No other one ends while there is a file `calls.open`.
PROGRAM = """\
#!/bin/sh
case "$*" in
"run "*--provision=hub*) echo "begin as=$BOARDLAB_PERSON $*" >> {calls}.writes
    while [ ! -e {calls}.written ]; do sleep 0.1; done; echo "end $*" >> {calls}.writes; exit 0;;
*"--cycles 96 "*) echo "as=$BOARDLAB_PERSON $*" >> {calls}.persons; exit 0;;
*"--cycles 99 "*) echo "job j99: boot on {board}, results in it"; echo "verdict: boot.time (sd) on {board}: regression, +5.0 %"; exit 3;;
*"--cycles 97 "*) echo "run 9: none of 4 numbers has moved for sure (lab judge show 9)"; exit 0;;
*"--cycles 95 "*) echo "not confirmed: numbers of run 9 may have moved"; exit 4;;
*"--cycles 98 "*) echo "not judged: the reference board r1 failed its check"; exit 0;;
*"--cycles 69 "*|"run "*/broken.yaml) exit 69;;
*"--cycles 75 "*) exit 75;;
"health "*) if [ -e {calls}.busy ]; then
    echo "labgrid's place p1 is held by desk/lena: wait until it is released. Wait for it with --wait SECONDS" >&2; exit 75; fi
    while [ ! -e {calls}.checked ]; do sleep 0.1; done; echo "$@" >> {calls}; exit 0;;
"run "*--provision*) echo "$@" >> {calls}; exit 0;;
esac
if [ -e {calls}.open ]; then
    {lab} "$@" &
    pid=$! told=
    trap 'told=1; kill -TERM $pid 2>/dev/null' TERM
    wait $pid; code=$?
    while kill -0 $pid 2>/dev/null; do wait $pid; code=$?; done
    while [ -z "$told" ] && [ -e {calls}.open ]; do sleep 0.1; done
    exit $code
fi
exec {lab} "$@"
"""


@frozen
class Told:
    """A request that came.

    Attributes:
        authorization: of its headers, whichever of them has the token.
    """

    path: str
    body: Any
    authorization: str


@define
class Listener:
    """GitHub, GitLab and a webhook in one."""

    address: str
    told: list[Told] = field(factory=list)

    def of(self, start: str) -> list[Told]:
        """What came to addresses that begin so."""
        return [each for each in self.told if each.path.startswith(start)]


class Server(ThreadingHTTPServer):
    """Of which a client may be killed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what no kill explains."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def listening() -> Iterator[Listener]:
    """Listen on a port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, {"id": 7})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            token = self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"] or ""
            listener.told.append(Told(self.path, body, token))
            self._answer(201, {})

        def _answer(self, code: int, document: object) -> None:
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        listener = Listener(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown()
            thread.join()


@define
class BuildbotFarm:
    """A farm that is up, through Buildbot's HTTP interface, as its own pages use it.

    Attributes:
        calls: the orders that were played. builders: name -> number.
    """

    desk: LocalFarm
    listener: Listener
    session: requests.Session = field(factory=requests.Session)
    builders: dict[str, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.session.trust_env = False
        self.session.headers["Accept-Encoding"] = "identity"  # some answers of a busy Buildbot are not what they say
        self.wait_for_workers()
        self.builders = {builder["name"]: builder["builderid"] for builder in self.get("builders")["builders"]}

    @property
    def address(self) -> str:
        """Of its pages."""
        farm = config.load(self.desk.file)
        assert farm.buildbot is not None
        return f"http://{farm.buildbot.www}"

    @property
    def calls(self) -> list[str]:
        """Of `lab run --provision`, which is played."""
        path = self.desk.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def get(self, path: str) -> Any:
        """Read a resource; an answer that a busy Buildbot cuts off is asked for again, as a browser would."""
        for _ in range(TRIES - 1):
            with suppress(requests.exceptions.ChunkedEncodingError):
                return self.session.get(f"{self.address}/api/v2/{path}", timeout=DEADLINE_S).json()
        return self.session.get(f"{self.address}/api/v2/{path}", timeout=DEADLINE_S).json()

    def log_in(self, user: str = "lab") -> None:
        """As one who may start builds."""
        users = json.loads((self.desk.buildbot.master / "secrets.json").read_text())["users"]
        self.session.get(f"{self.address}/auth/login", auth=(user, users[user]), timeout=DEADLINE_S)

    def measure(self, board: str, suite: str = "boot", **parameters: object) -> Any:
        """Start a run on a board by hand."""
        return self.force("measure", board, suite=suite, **parameters)

    def force(self, scheduler: str, builder: str, **parameters: object) -> Any:
        """Start a build by hand."""
        order = {"builderid": self.builders[builder], **parameters}
        body = {"id": 1, "jsonrpc": "2.0", "method": "force", "params": order}
        url = f"{self.address}/api/v2/forceschedulers/{scheduler}"
        return self.session.post(url, json=body, timeout=DEADLINE_S).json()

    def rebuild(self, build: int) -> Any:
        """Build a build again by hand."""
        body = {"id": 1, "jsonrpc": "2.0", "method": "rebuild", "params": {}}
        return self.session.post(f"{self.address}/api/v2/builds/{build}", json=body, timeout=DEADLINE_S).json()

    def builds(self, request: int | None = None) -> list[dict[str, Any]]:
        """All builds, or those of a request."""
        path = "builds" if request is None else f"buildrequests/{request}/builds"
        return list(self.get(f"{path}?property=*")["builds"])

    def ended(self, request: int) -> int:
        """The result of a request, once it is there (0 success, 1 warnings, 2 failure, 4 exception)."""
        wait_for(lambda: self.end_of(request) is not None)
        return int(self.get(f"buildrequests/{request}")["buildrequests"][0]["results"])

    def end_of(self, request: int) -> int | None:
        """The result of a request; None: it has none yet, or the master is away."""
        try:
            (found,) = self.get(f"buildrequests/{request}")["buildrequests"]
        except (requests.RequestException, ValueError, KeyError):
            return None
        return int(found["results"]) if found["complete"] else None

    def wait_for_workers(self) -> None:
        """Until all are connected."""
        wait_for(self._connected)

    def _connected(self) -> bool:
        try:
            workers = self.get("workers")["workers"]
        except (requests.RequestException, ValueError):  # the master is being started
            return False
        return bool(workers) and all(worker["connected_to"] for worker in workers)

    def pid(self, name: str) -> int:
        """Of a program of the farm; 0: it is down."""
        return next((state.pid for state in self.desk.states() if state.name == name), 0)

    def log(self, name: str) -> str:
        """What a program said."""
        return (self.desk.runtime / "logs" / f"{name}.log").read_text(errors="replace")

    def samples(self) -> dict[str, list[tuple[int, int]]]:
        """Board -> run and cycle of its samples of boot time."""
        with open_store(config.load(self.desk.file).database) as store:
            found: dict[str, list[tuple[int, int]]] = {}
            for run in store.runs():
                cycles = [sample.cycle for sample in store.samples(run.id, "boot.time")]
                found.setdefault(run.board, []).extend((run.id, cycle) for cycle in cycles)
            return found


def wait_for(reached: Callable[[], object]) -> None:
    """Until it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def lab(folder: Path, *words: str) -> str:
    """What the command said; it fails where that does."""
    done = subprocess.run([LAB, *words], cwd=folder, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running_farm(folder: Path, count: int, time_scale: float, attempts: int = 6) -> Iterator[BuildbotFarm]:
    """Bring one up. Its first board has a schedule `new` over the folder `releases`, which is there and empty."""
    place = LocalFarm(folder / ".lab" / "farm" / "farm.yaml")
    program = folder / "lab"
    boards = [f"am62xx_sk-{number}" for number in range(1, count + 1)]
    program.write_text(PROGRAM.format(board=boards[0], calls=place.folder / "calls", lab=LAB))
    program.chmod(0o755)
    secrets = place.buildbot.master / "secrets"
    secrets.mkdir(parents=True, mode=0o700)
    (place.folder / "releases").mkdir()
    for name, token in TOKENS.items():
        (secrets / name).write_text(token)
        (secrets / name).chmod(0o600)
    with listening() as listener:
        later = (dt.datetime.now() + dt.timedelta(hours=12)).strftime("%H:%M")  # noqa: DTZ005 - as the master's clock
        envs = {board: f"virtual/{board}/env.yaml" for board in boards}
        document = {
            "directory": str(place.folder),
            "alertmanager": listener.address.removeprefix("http://"),
            "program": str(program),
            "database": f"sqlite:///{place.folder / 'results.db'}",
            "exporter": {"listen": _address()},
            "web": {"listen": _address()},
            "pdudaemon": {"address": _address()},
            "virtual": {"types": ["am62xx_sk"], "count": count, "time_scale": time_scale},
            "boards": [{"name": board, "env": env, "hub": "left"} for board, env in envs.items()],
            "health": {"reference": boards[0], "at": later},
            "buildbot": {
                "program": str(buildbot.find()),
                "www": _address(),
                "workers": _address(),
                "attempts": attempts,
                "users": ["lena"],
                "github": {"repository": "lab/releases", "url": listener.address},
                "gitlab": {"repository": "lab/releases", "url": f"{listener.address}/gitlab"},
                "webhook": {"url": f"{listener.address}/hook", "token": True},
            },
            "schedules": [
                {
                    "name": "nightly",
                    "env": envs[boards[0]],
                    "board": boards[0],
                    "cycles": 1,
                    "medium": "sd",
                    "at": later,
                },
                {
                    "name": "new",
                    "env": envs[boards[0]],
                    "board": boards[0],
                    "cycles": 1,
                    "every": "release",
                    "release": "newest in releases",
                },
            ],
        }
        place.file.write_text(json.dumps(document))  # which is YAML, too
        try:
            lab(folder, "farm", "up")
            yield BuildbotFarm(place, listener)
        finally:
            lab(folder, "farm", "down")


def _address() -> str:
    return f"127.0.0.1:{free_port()}"
