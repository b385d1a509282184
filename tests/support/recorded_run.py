"""A boot run as a bench records one, made up but complete: 3 media × 20 cycles with failed attempts, in a real store."""

from __future__ import annotations

import datetime as dt
import random

from attrs import evolve, frozen

from lab.results import ArtifactRef, AttemptRecord, Moment, Run, SampleRecord, Store
from lab.results.records import HOST_BUSY
from lab.results.rows import insert_attempt

BYTES_PER_S = 11_520
START = dt.datetime(2026, 3, 2, 9, 30, tzinfo=dt.UTC)
MEDIA = {"sd": 1.0, "emmc": 0.85, "ospi": 1.6}  # how slow its kernel load and user space are
# (moment, stage that ends there, mean length in seconds, lines printed meanwhile)
BOOT = (
    ("uboot", "Power on to U-Boot", 0.35, 3),
    ("autoboot", "U-Boot start-up", 0.28, 12),
    ("kernel_load", "Autoboot countdown", 1.02, 2),
    ("starting_kernel", "Kernel load", 0.74, 6),
    ("first_printk", "Kernel entry", 0.11, 2),
    ("init", "Kernel", 1.46, 220),
    ("login", "User space", 0.92, 18),
)
MARKERS = {
    "uboot": "U-Boot 2023.01 (Jan 09 2023 - 16:07:33 +0000)",
    "autoboot": "Hit any key to stop autoboot:  0",
    "kernel_load": "Boot mode pins: {medium} ",
    "starting_kernel": "Starting kernel ...",
    "first_printk": "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]",
    "init": "[    1.482013] Run /init as init process",
    "login": "qemu-virt login: ",
}


@frozen
class Boot:
    """The console log of a boot and what was read from it."""

    log: bytes
    moments: tuple[Moment, ...]
    samples: tuple[SampleRecord, ...]


def boot(medium: str, cycle: int, dice: random.Random, flags: frozenset[str], stretch: float = 1.0) -> Boot:
    """One good boot; its kernel and user space take `stretch` times as long."""
    log, t_s = b"", 5000.0 + cycle * 10
    on_s, before_s, before_at = t_s, t_s, 0
    moments, stages = [], []
    for name, stage, mean_s, chatter in BOOT:
        slow = MEDIA[medium] if stage in {"Kernel load", "User space"} else 1.0
        slow *= stretch if stage in {"Kernel", "User space"} else 1.0
        t_s += max(0.01, dice.gauss(mean_s * slow, 0.012 * mean_s))
        for n in range(chatter):
            log += f"[{t_s - on_s:12.6f}] {stage.lower()}: step {n} of {chatter} done\r\n".encode()
        marker = MARKERS[name].format(medium=medium)
        log += marker.encode()
        moments.append(Moment(name, round(t_s * 1e9), 90_000, len(log), marker))
        log += b"\r\n"
        params = {"medium": medium, "stage": stage}
        stages.append(SampleRecord("boot.stage", params, t_s - before_s, 1.3e-4, flags, before_at, len(log) - 2))
        before_s, before_at = t_s, len(log) - 2
    times = {m.name: m for m in moments}
    start, end = times["starting_kernel"], times["login"]
    window = (start.position - len(start.text), end.position)
    kernel_s = (end.t_ns - start.t_ns) / 1e9
    numbers = (
        SampleRecord("boot.time", {"medium": medium}, kernel_s, 1.3e-4, flags, *window),
        SampleRecord("boot.power_on_to_prompt", {"medium": medium}, t_s - on_s, 2.1e-3, flags, 0, end.position),
    )
    return Boot(log, tuple(moments), (*numbers, *stages))


def record(
    store: Store,
    *,
    cycles: int = 20,
    virtual: bool = True,
    finish: bool = True,
    release: str = "11.01",
    busy_from: int | None = None,
    seed: int = 16,
    board: str = "",
) -> Run:
    """Record a run with a hung kernel on SD, a silent board and a wrong medium on eMMC, and two flagged cycles.

    Args:
        busy_from: the cycle at which the host becomes busy, and the boots from OSPI slower; None: nobody looked.
        board: another one than the usual.
    """
    dice = random.Random(seed)
    board_type, usual = ("qemu-virt", "qemu-1") if virtual else ("am62xx_sk", "SK-AM62-0042")
    board = board or usual
    provenance = {
        "virtual": virtual,
        "host": "lab-host-3",
        "host_cpus": 2,
        "clock": "CLOCK_MONOTONIC_RAW",
        "boardlab": "0.1",
        "images_sha256": {"kernel": "ab" * 32},
    }
    plan = {"cycles": cycles, "media": list(MEDIA)}
    run = store.begin_run("boot", board_type, board, release, plan=plan, provenance=provenance)
    simulated = frozenset({"simulated"}) if virtual else frozenset()
    at, records = START, []
    for medium in MEDIA:
        for cycle in range(1, cycles + 1):
            number = 1
            for failure in FAILURES.get((medium, cycle), ()):
                at += dt.timedelta(seconds=36)
                records.append(failed(store, failure, medium=medium, cycle=cycle, number=number, at=at))
                number += 1
            flags = simulated | ({"medium_unverified"} if (medium, cycle) in FLAGGED else frozenset())
            is_busy = busy_from is not None and cycle >= busy_from
            good = boot(medium, cycle, dice, flags, 1.1 if is_busy and medium == "ospi" else 1.0)
            at += dt.timedelta(seconds=6)
            record = attempt(store, good, medium=medium, cycle=cycle, number=number, at=at)
            if busy_from is not None:
                record = evolve(record, details={HOST_BUSY: round(dice.gauss(0.8 if is_busy else 0.2, 0.03), 3)})
            records.append(record)
    store.write(lambda session: [insert_attempt(session, run.id, each) for each in records])
    if finish:
        store.finish_run(run.id, "completed")
    return store.run(run.id)


def attempt(store: Store, good: Boot, *, medium: str, cycle: int, number: int, at: dt.datetime) -> AttemptRecord:
    """The record of a good boot."""
    return AttemptRecord(
        cycle=cycle,
        number=number,
        params={"medium": medium},
        outcome="ok",
        fault=None,
        transient=None,
        message="",
        started_at=at,
        duration_s=6.0,
        samples=good.samples,
        artifacts=(store.artifacts.put(good.log, kind="console-log"),),
        moments=good.moments,
    )


@frozen
class Failed:
    """How an attempt failed; `log` is None where no console log was kept."""

    outcome: str
    fault: str
    message: str
    log: bytes | None


def failed(store: Store, failure: Failed, *, medium: str, cycle: int, number: int, at: dt.datetime) -> AttemptRecord:
    """The record of a failed boot."""
    artifacts: tuple[ArtifactRef, ...] = ()
    if failure.log is not None:
        artifacts = (store.artifacts.put(failure.log, kind="console-log"),)
    return AttemptRecord(
        cycle=cycle,
        number=number,
        params={"medium": medium},
        outcome=failure.outcome,
        fault=failure.fault,
        transient=True,
        message=failure.message,
        started_at=at,
        duration_s=30.0,
        artifacts=artifacts,
    )


_HUNG = Failed(
    "hang_kernel",
    "board",
    "hung in kernel: nothing for 5 s after '[    0.412345] clk: <b>probing</b>'",
    b"U-Boot 2023.01\r\n\r\nStarting kernel ...\r\n\r\n[    0.412345] clk: <b>probing</b> \x1b[2J\x1b]0;owned\x07\r\n",
)
_SILENT = Failed("silent", "board", "no byte within 3 s after power on. Look at the outlet and the straps", None)
_WRONG = Failed(
    "wrong_medium",
    "lab",
    "booted from the wrong medium: emmc was selected, uboot says 'sd' (sd). Check the boot-mode straps",
    b"U-Boot 2023.01\r\nBoot mode pins: sd \r\n",
)
FAILURES = {("sd", 7): (_HUNG,), ("sd", 15): (_HUNG,), ("emmc", 3): (_SILENT, _WRONG)}
FLAGGED = {("sd", 4), ("ospi", 11)}
