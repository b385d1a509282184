"""Jobs that are queued in a browser, and their logs.

`lab run` writes a log beside the console server, also after the site has ended.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

from attrs import frozen
from fastapi import APIRouter
from fastapi import Path as Asked
from fastapi.responses import PlainTextResponse, Response

from lab.console.terminal import LiveText
from lab.errors import ConfigurationError, LabTransientError
from lab.farm.board_state import BoardNow
from lab.farm.job_queue import health_config, open_queue
from lab.host.clock import utc_now
from lab.host.process import PERSON_VARIABLE
from lab.host.runtime import prepare, runtime_dir
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_WEB, JobState, Order
from lab.jobs.waiting import BusyBoardError, JobWaiter
from lab.results.location import DATABASE_VARIABLE, locate
from lab.results.store import Store
from lab.web.site import Site

PREFIX: Final = "web-run-"
_KEPT: Final = 50  # the runtime folder is memory
_KEPT_S: Final = 14 * 86_400.0  # a job waits for seven days at most, and says nothing meanwhile
_SHOWN: Final = 256 * 1024  # bytes of a log, its end
_JOBS: Final = 200  # the latest ones, of which a board's are looked for


@frozen
class JobLog:
    """A job of a board that was queued here, and its state."""

    job: str
    state: JobState


def keep_log(site: Site, log: Path, job: str) -> None:
    """Name a log after its job, and remove the oldest ones.

    So the site's next process finds it again.
    """
    with suppress(OSError):
        log.rename(log.with_name(f"{_log_prefix(site)}{job}.log"))
    remove_old_logs(log.parent)


def remove_old_logs(folder: Path) -> None:
    """Remove the oldest logs, and those without a job."""
    with suppress(OSError):
        logs = sorted(folder.glob(f"{PREFIX}*.log"), key=os.path.getmtime, reverse=True)
        for number, log in enumerate(logs):
            if number >= _KEPT or time.time() - log.stat().st_mtime > _KEPT_S:
                log.unlink(missing_ok=True)


def of_board(site: Site, store: Store, board: str) -> list[JobLog]:
    """Jobs of a board with logs here, the newest first."""
    folder = site.runtime or runtime_dir()
    begin = f"{_log_prefix(site)}j"
    there = {int(number) for path in folder.glob(f"{begin}*.log") if (number := path.stem[len(begin) :]).isdecimal()}
    if not there:
        return []
    jobs = (view.job for view in listing.jobs(store, _JOBS, utc_now()))
    return [JobLog(job.called, job.state) for job in jobs if job.board == board and job.id in there]


def _log_prefix(site: Site) -> str:
    """The prefix of the names of this site's logs.

    Sites with other results share the folder, and count jobs from 1, too.
    """
    return f"{PREFIX}{locate(site.database()).tag}-"


def router(site: Site) -> APIRouter:
    """The logs' address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/jobs/{job}/log")
    def log(job: Annotated[str, Asked(pattern=r"^j[1-9][0-9]{0,17}$")]) -> Response:
        """The end of the output of `lab run`, as plain text.

        A browser interprets nothing in it.
        """
        try:
            with ((site.runtime or runtime_dir()) / f"{_log_prefix(site)}{job}.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _SHOWN))
                return PlainTextResponse(LiveText().feed(file.read()))
        except FileNotFoundError as error:
            raise ConfigurationError(
                f"no log of {job}: it was not queued here, or is long over; `lab jobs` and the page of its board say "
                "how it ended"
            ) from error

    return routes


LONGEST_WAIT_S: Final = 7 * 86_400  # for a board, of a job that is queued here
_POWER_S: Final = 300.0
_BEAT_S: Final = 1.0  # of a power switch: so soon it sees that somebody cancelled it
_BEGUN_S: Final = 60.0  # until `lab run` says which job it is; it looks at the environment first
_LOOK_S: Final = 0.05
_LAB: Final = (sys.executable, "-P", "-c", "import sys; from lab.cli import main; sys.exit(main())")
_JOB: Final = re.compile(r"^job (j\d+): ", re.MULTILINE)


def queue_run(site: Site, person: str, arguments: Sequence[str]) -> str:
    """Start `lab run --wait`; return its job, e.g. "j12".

    Raises:
        ConfigurationError: it refuses the order; the message is its own.
        LabTransientError: it says nothing.
    """
    folder = prepare(site.runtime or runtime_dir())
    handle, name = tempfile.mkstemp(prefix=PREFIX, suffix=".log", dir=folder)
    with os.fdopen(handle, "wb") as log:
        child = subprocess.Popen(
            [*_LAB, "run", *arguments, "--wait", str(LONGEST_WAIT_S)],
            cwd=site.home(),
            env=_environment(site, person),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    log_file = Path(name)
    threading.Thread(target=child.wait, name="lab run", daemon=True).start()  # no zombie is left of it
    try:
        job = _job_of(child, log_file)
    except BaseException:
        log_file.unlink(missing_ok=True)  # its refusal has been shown
        raise
    keep_log(site, log_file, job)
    return job


def _job_of(child: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _BEGUN_S
    while True:
        ended = child.poll() is not None
        output = log.read_text(encoding="utf-8", errors="replace")
        job_line = _JOB.search(output)
        if job_line is not None:
            return job_line[1]
        if ended:
            raise ConfigurationError(
                _error_of(output) or f"lab run ended with status {child.returncode} and printed nothing"
            )
        if time.monotonic() > deadline:
            child.terminate()
            raise LabTransientError(
                f"lab run named no job for {_BEGUN_S:g} s; its last line: {_error_of(output) or 'nothing'}"
            )
        time.sleep(_LOOK_S)


def power_cycle(site: Site, store: Store, person: str, board: BoardNow) -> None:
    """Switch a board off and on by its environment's power driver.

    A job holds the board meanwhile.

    Raises:
        ConfigurationError: somebody has it, or nothing describes it.
        LabTransientError: it failed; the message is that of `lab power`.
    """
    if board.console and not any(
        port.board == board.board and port.writer == os.getpid() for port in site.look().ports
    ):
        raise ConfigurationError(f"its console is held by {board.console}: that ends first")
    queue = open_queue(store, BY_WEB, person=person, ignores=True, rule=health_config(site.farm).rule)
    order = Order(board.board_type, board.board, ("power_cycle",), environment(board), "", None)
    job = queue.enqueue(order)
    try:
        started = JobWaiter(queue, lambda _line: None).wait(job, 0.0)
    except BusyBoardError as error:
        queue.finish(job.id, "refused")
        raise ConfigurationError(error.why) from error
    if started is None:
        queue.finish(job.id, "interrupted")
        raise ConfigurationError(f"job {job.called} was cancelled by {queue.job(job.id).cancelled_by}")
    state: JobState = "failed"
    try:
        state, why = _power(site, person, queue, job.id, order.env)
    finally:
        queue.finish(job.id, state)
    if why:
        raise LabTransientError(why)


def environment(board: BoardNow) -> str:
    """The environment of a board.

    Raises:
        ConfigurationError: none in the lab's folder describes it.
    """
    if not board.env:
        raise ConfigurationError(
            f"no environment describes {board.board}: name it in `boards` of farm.yaml, or start `lab web` in the "
            "folder whose envs/ has it"
        )
    return board.env


def _power(site: Site, person: str, queue: JobQueue, job_id: int, env: str) -> tuple[JobState, str]:
    """Run `lab power cycle` to its end; return state and reason."""
    with subprocess.Popen(
        [*_LAB, "power", "cycle", "--env", env],
        cwd=site.home(),
        env=_environment(site, person),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        deadline = time.monotonic() + _POWER_S
        try:
            while time.monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    output, _ = child.communicate(timeout=_BEAT_S)
                    if child.returncode == 0:
                        return "completed", ""
                    last = _error_of(output.decode("utf-8", "replace"))
                    return "failed", last or f"lab power ended with status {child.returncode}"
                with suppress(LabTransientError):  # results that are away end no switch of power
                    if not queue.beat(job_id):
                        continue
                    by = queue.job(job_id).cancelled_by
                    return "interrupted", f"{by} cancelled it; look whether the board is off or on"
            return "failed", f"lab power took longer than {_POWER_S:g} s; look whether the board is off or on"
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)


def _environment(site: Site, person: str) -> dict[str, str]:
    database = site.database()
    return {
        **os.environ,
        PERSON_VARIABLE: person,
        **({} if database is None else {DATABASE_VARIABLE: database}),
        **({} if site.runtime is None else {"BOARDLAB_RUNTIME": str(site.runtime)}),
    }


def _error_of(output: str) -> str:
    """The error in a program's output, else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")] or lines[-1:]
    return errors[-1] if errors else ""
