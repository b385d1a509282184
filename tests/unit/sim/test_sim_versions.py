"""Simulated boards name their versions as real ones do, and a run keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.simruns import SimBench, bench, planned

from lab.judge.run_judge import judge_run
from lab.run.lowpower import KIND, LowPowerRun
from lab.run.progress import Progress

ALL = {"uboot", "kernel", "spl", "silicon", "security", "device_tree", "image_bytes"}
K3 = {"sysfw", "tf_a"}
EEPROM = {"board_revision"}
QUIET = 8  # nights: as many as the judge needs


@pytest.mark.parametrize(
    ("board_type", "names"),
    [
        ("am62xx_sk", ALL | K3 | EEPROM),
        ("am62xx_lp_sk", ALL | K3 | EEPROM),
        ("am62xxsip_sk", ALL | K3),
        ("am62axx_sk", ALL | K3 | EEPROM),
        ("am654x-evm", ALL | K3 | EEPROM | {"optee"}),
        ("am43xx-gpevm", ALL),
        *(
            pytest.param(name, ALL | K3 | eeprom, marks=pytest.mark.soak)
            for name, eeprom in {
                "am62pxx_sk": set[str](),
                "am62dxx_evm": set[str](),
                "am62lxx_evm": set[str](),
                "am64xx-evm": EEPROM,
                "am64xx_sk": EEPROM,
                "j722s_evm": set[str](),
            }.items()
        ),
    ],
)
def test_every_board_type_names_its_versions(tmp_path: Path, board_type: str, names: set[str]) -> None:
    with bench(tmp_path, board_type=board_type) as made:
        (attempt,) = made.measure()
        assert attempt.details["software"].keys() == names


def test_another_dm_firmware_with_slower_resumes_is_named_as_the_cause(tmp_path: Path) -> None:
    """The board resumes night by night; then its medium has another firmware of the device manager."""
    nights = QUIET + 2
    faults = [planned("dm_firmware", f"1-{QUIET}", version="v11.01.00", resume_ms=0.0)]
    faults.append(planned("dm_firmware", f"{QUIET + 1}-{nights}", version="v11.01.08a", resume_ms=20.0))
    with bench(tmp_path, faults) as made:
        made.strategy.low_power.release = "11.01"
        found = [_night(made) for _ in range(nights)]
        changed = [judge_run(made.store, run, remember=tmp_path) for run in found[QUIET:]][-1]
        (verdict,) = (each.verdict for each in changed.judged if each.verdict.metric.endswith(".resume_kernel"))
    assert (verdict.outcome, verdict.since_run) == ("regression", found[QUIET])
    assert list(verdict.differs) == ["dm_firmware"]


def _night(made: SimBench) -> int:
    """A run of suspends after one power-on."""
    plan = {"cycles": 3, "modes": ["deep_sleep"], "wake": "rtc", "sleep_s": 1, "medium": "sd"}
    begun = made.store.begin_run(KIND, "am62xx_sk", "sim-1", "11.01", plan=plan, provenance={"host": "lab"})
    made.strategy.transition("off")
    progress = Progress(lambda _line: None, made.run.clock, 3)
    LowPowerRun(made.store, begun, made.strategy, progress, made.run.clock, made.strategy.sleep, 0).measure(
        "deep_sleep"
    )
    made.store.finish_run(begun.id, "completed")
    return begun.id
