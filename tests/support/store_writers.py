"""Programs that write to one store at once, for the tests of every database."""

from __future__ import annotations

import datetime as dt
import multiprocessing
from multiprocessing.synchronize import Barrier
from typing import Final

from lab.results import AttemptRecord, Moment, SampleRecord, open_store
from support.atlength import either

WRITERS: Final = either(4, 16)
ATTEMPTS: Final = 20
MEDIA: Final = ("sd", "emmc", "ospi", "usb")


PATIENCE_S: Final = 100  # a writer that waits longer for the others fails, and the test with it


def write_all_at_once(url: str) -> list[int | None]:
    """Let WRITERS programs open the database `url` at once and record ATTEMPTS cycles each in run 1; their exit codes.

    The database need not exist yet: the first to come makes it, and begins the run.
    """
    context = multiprocessing.get_context("forkserver")  # fresh programs, but they need not import everything again
    context.set_forkserver_preload(["lab.results"])
    start, begun = (context.Barrier(WRITERS, timeout=PATIENCE_S) for _ in range(2))
    programs = [context.Process(target=_write, args=(url, number, start, begun)) for number in range(WRITERS)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    return [program.exitcode for program in programs]


def _write(url: str, number: int, start: Barrier, begun: Barrier) -> None:
    start.wait()
    with open_store(url) as store:
        if number == 0:
            store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={})
        begun.wait()
        for n in range(ATTEMPTS):
            log = store.artifacts.put(b"the log of attempt %d" % (n % 3), kind="console-log")
            params = {"medium": MEDIA[number % len(MEDIA)]}
            store.record_attempt(
                1,
                AttemptRecord(
                    cycle=number * ATTEMPTS + n + 1,
                    number=1,
                    params=params,
                    outcome="ok",
                    fault=None,
                    transient=None,
                    message="",
                    started_at=dt.datetime.now(dt.UTC),
                    duration_s=1.0,
                    samples=(
                        SampleRecord("boot.time", params, float(n), 0.1),
                        SampleRecord("boot.stage", {**params, "stage": "Kernel"}, float(number), 0.1),
                    ),
                    artifacts=(log,),
                    moments=(Moment("login", n, 1, 1, "login: "),),
                ),
            )


def assert_nothing_is_lost(url: str) -> None:
    """Every attempt of every writer is there once, with its samples, moment and artifact."""
    with open_store(url) as store:
        (run,) = store.runs()
        attempts = store.attempts(run.id)
        assert sorted(a.cycle for a in attempts) == list(range(1, WRITERS * ATTEMPTS + 1))
        assert {(len(a.samples), len(a.moments), len(a.artifacts)) for a in attempts} == {(2, 1, 1)}
        measurements = store.measurements(run.id)
        assert len(measurements) == 2 * len(MEDIA)
        assert {len(m.samples) for m in measurements} == {WRITERS * ATTEMPTS // len(MEDIA)}
        written = {a.cycle: (float((a.cycle - 1) % ATTEMPTS), float((a.cycle - 1) // ATTEMPTS)) for a in attempts}
        assert {a.cycle: tuple(s.value for s in a.samples) for a in attempts} == written
