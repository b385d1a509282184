"""Conditions of a run, cause by cause."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab.judge.causes import CAUSES, RunCause, causes_at, causes_of, changes
from lab.judge.history import CONSTANTS, HistoryRun
from lab.judge.history.table import Provenance

JUDGE = Path(__file__).resolve().parents[3] / "docs" / "judge.md"
SOFTWARE = {"uboot": "U-Boot 2025.01-g1", "kernel": "Linux version 6.12.1 #1"}


def test_what_a_run_was_made_with_is_known_by_cause() -> None:
    identity = {"serial": "", "macs": ["aa:bb", "cc:dd"]}
    details = [{}, {"identity": identity, "setup": {"card": "SanDisk", "fan": "on"}, "port": {"adapter": "FTDI"}}]
    provenance = {"host": "lab1", "tester": "pc1", "images_sha256": {}}
    assert causes_of("11.01", provenance, [*details, {"software": SOFTWARE}]) == {
        "release": "11.01",
        "host": "lab1",
        "tester": "pc1",
        "adapter": "FTDI",
        "board": "aa:bb cc:dd",
        "card": "card SanDisk",
        "software": f"{SOFTWARE['kernel']}; {SOFTWARE['uboot']}",
    }


def test_firmware_is_a_cause_of_its_medium_alone() -> None:
    details = [
        {"software": {"tf_a": "v2.10", "silicon": "AM62X SR1.0"}, "medium_seen": {"spl": "sd"}},
        {"software": {"tf_a": "v2.12", "silicon": "AM62X SR1.0"}, "medium_seen": {"spl": "emmc"}},
    ]
    known = causes_of("", {}, details)
    assert known == {"tf_a": "emmc v2.12; sd v2.10", "silicon": "AM62X SR1.0"}
    assert causes_at(known, (("medium", "sd"),)) == {"tf_a": "v2.10", "silicon": "AM62X SR1.0"}
    assert causes_at(known, (("medium", "ospi"),)) == {"silicon": "AM62X SR1.0"}


def test_a_new_cause_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CAUSES, "fan", RunCause(lambda run: str(run.provenance.get("fan") or ""), "setup"))
    slow, fast = (causes_of("", {"fan": speed}, []) for speed in ("slow", "fast"))
    assert dict(changes(slow, fast)) == {"fan": ("slow", "fast")}
    provenance = Provenance(CONSTANTS)
    samples = np.ones(3)
    assert provenance.take(HistoryRun(samples, slow)) == (False, False, 0.0)
    assert provenance.take(HistoryRun(samples, fast)) == (False, False, CONSTANTS.swap_other**2)


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in JUDGE.read_text(encoding="utf-8")
