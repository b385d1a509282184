"""A measured boot and its diagnosis in a store, whose parts have known times."""

from __future__ import annotations

from collections.abc import Sequence

from lab.benchmarks.diagnosis.parts import BOOTSTAGE, INITCALLS, MODULES, UNITS, BootPart, documents
from lab.judge.boot_breakdown import OF, BootBreakdown, read_breakdowns
from lab.results import AttemptRecord, Moment, SampleRecord, Store
from lab.results.records import DIAGNOSIS
from support.recorded_run import START

MOMENTS_S = {
    "spl": 0.2,
    "uboot": 1.0,
    "autoboot": 1.5,
    "starting_kernel": 3.0,
    "first_printk": 3.2,
    "init": 4.0,
    "login": 7.0,
}
STAGES_S = {
    "Power on to SPL": 0.2,
    "SPL": 0.8,
    "U-Boot": 0.5,
    "Kernel load": 1.5,
    "Kernel entry": 0.2,
    "Kernel": 0.8,
    "User space": 3.0,
}
PARTS = (
    BootPart(BOOTSTAGE, "board_init_f", 0.0, 0.3, 0.3),
    BootPart(BOOTSTAGE, "main_loop", 0.3, 0.4, 0.4),  # U-Boot's 0 is at 0.8 s
    BootPart(INITCALLS, "(before the first initcall)", 0.0, 0.1, 0.1),
    BootPart(INITCALLS, "sdhci_init", 0.2, 0.3, 0.1),
    BootPart(INITCALLS, "probe mmc", 0.21, 0.2, 0.2),
    BootPart(INITCALLS, "(between initcalls)", 0.1, 0.35, 0.35),
    BootPart(MODULES, "late_init [late]", 1.2, 0.05, 0.05),
    BootPart(UNITS, "first.service", 0.5, 0.5, 0.5),
    BootPart(UNITS, "second.service", 0.8, 0.7, 0.7),
    BootPart(UNITS, "parallel.service", 0.0, 9.0, 9.0),
)


def diagnosed(
    store: Store,
    parts: Sequence[BootPart],
    own: float | None = None,
    *,
    quiet: bool = False,
    chain: Sequence[str] = (),
) -> BootBreakdown:
    """The parts of two equal boots with power on at 100 s, whose kernel's time 0 is at 103.1 s."""
    run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
    silent = {"first_printk", "init"} if quiet else set()
    moments = [Moment(n, round((100 + at) * 1e9), 400_000, 0) for n, at in MOMENTS_S.items() if n not in silent]
    if own is not None:
        moments.append(Moment("app", round((100 + own) * 1e9), 400_000, 0))
    stages = [(n, s) for n, s in STAGES_S.items() if not quiet or n not in {"Kernel entry", "Kernel", "User space"}]
    samples = [
        SampleRecord("boot.time", {"medium": "sd"}, 4.0, 0.0004),
        SampleRecord("boot.power_on_to_prompt", {"medium": "sd"}, 7.0, 0.0004),
        *(SampleRecord("boot.stage", {"medium": "sd", "stage": name}, s, 0.0004) for name, s in stages),
    ]
    fit = None if quiet else {"offset_ns": 103_100_000_000, "late_ns": 300_000, "drift_ns": 0.0}
    for cycle in (1, 2):
        record = AttemptRecord(
            cycle,
            1,
            {"medium": "sd"},
            "ok",
            None,
            None,
            "",
            START,
            20.0,
            tuple(samples),
            (),
            tuple(moments),
            {"printk_fit": fit},
        )
        store.record_attempt(run.id, record)
    store.finish_run(run.id, "completed")
    its = store.begin_run(
        DIAGNOSIS, "am62xx_sk", "b1", "11.01", plan={"cycles": 1, "media": ["sd"]}, provenance={OF: run.id}
    )
    document = {
        "boot_s": 4.0,
        "parts": documents(parts),
        "problems": [],
        "getty_s": 1.0,
        "init_s": 0.75,
        "systemd_s": 0.79,
        "chain": [*chain],
    }
    record = AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", START, 20.0, details={DIAGNOSIS: document})
    store.record_attempt(its.id, record)
    store.finish_run(its.id, "completed")
    (found,) = read_breakdowns(store, run.id)
    return found
