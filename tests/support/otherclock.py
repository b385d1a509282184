"""A program on a host with another name and another wall clock: python otherclock.py NAME AHEAD_S lab WORD…, or hold DATABASE ENV BOARD SECONDS."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TAKEN, LOST, AWAY = (
    41,
    42,
    43,
)  # exit codes: another one measures on the board; ours lost board or place; the lab did not answer
WAIT_S = 3600.0


def become(name: str, ahead_s: float, patch: Any = setattr) -> None:
    """Give this process that host's name, and boardlab in it that host's wall clock; gRPC's deadlines are by this machine's."""
    from lab.host import clock  # noqa: PLC0415 - before anything of boardlab looks at the clock

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.now(tz) + dt.timedelta(seconds=ahead_s)

    patch(clock, "dt", SimpleNamespace(datetime=Shifted, UTC=dt.UTC))
    patch(socket, "gethostname", lambda: name)


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def hold(database: str, env: str, board: str, seconds: str) -> int:
    """Hold a board and its place as `lab run` does, for so long, and see that nobody else has them."""
    from exporters.farm.coordinator import Coordinator  # noqa: PLC0415 - see `become`
    from lab.env import envfile  # noqa: PLC0415
    from lab.errors import BoardlabError  # noqa: PLC0415
    from lab.farm import lease  # noqa: PLC0415
    from lab.farm.labgrid_place import PlaceWait, acquired  # noqa: PLC0415
    from lab.jobs.records import Order  # noqa: PLC0415

    order = Order("am62xx_sk", board, ("boot",), env, "", None)
    coordinator = Coordinator(envfile.coordinator_of(Path(env)))
    try:
        with lease.opened(database, WAIT_S, say) as store:
            book = lease.queue(store)
            with lease.held(book, order, WAIT_S, say) as job:
                place_wait = PlaceWait(time.monotonic() + WAIT_S, say, lambda: False)
                with acquired(book, job, place_wait) as user, Path(env).with_suffix(".lock").open("w") as lock:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        return TAKEN
                    say(f"measures as {job.called}")
                    until_s = time.monotonic() + float(seconds)
                    while time.monotonic() < until_s:
                        if coordinator.holder(board) != f"{user['LG_HOSTNAME']}/{user['LG_USERNAME']}":
                            return LOST
                        time.sleep(1.0)
    except KeyboardInterrupt:  # its lease is another's
        return LOST
    except BoardlabError as error:
        say(str(error))
        return AWAY if error.transient else LOST
    return 0


def main() -> int:
    """As the module says."""
    name, ahead_s, program, *words = sys.argv[1:]
    become(name, float(ahead_s))
    if program == "hold":
        return hold(*words)
    from lab.cli import main as lab  # noqa: PLC0415

    with contextlib.suppress(KeyboardInterrupt):
        return lab(words)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
