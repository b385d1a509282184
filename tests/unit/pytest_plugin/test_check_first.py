"""`--lab-health`: which checks that fail keep a session from measuring, and which are for the run to record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import LabStableError
from lab.health import DEFAULT_RULE, CheckedPart
from lab.health.state import PARTS
from lab.health.store import HealthBook
from lab.pytest_plugin import health
from lab.pytest_plugin.runs import STORE_KEY, STRATEGY_KEY
from lab.results import open_store

SILENT = CheckedPart("console", "failed", "silent", "board", "no byte")
BROKEN_PROMPT = CheckedPart("console", "failed", "prompt_broken", "test", "in pieces")
FELL_BACK = CheckedPart("medium", "failed", "wrong_medium", "lab", "booted from emmc")
DEAD_STRAPS = CheckedPart("medium", "failed", "strap_refused", "lab", "no answer")
DEAD_PDU = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer")


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[CheckedPart, bool], list[str]]:
    """What a session says whose check finds this part failed; `True`: it writes a release first."""

    def check_first(part: CheckedPart, provision: bool) -> list[str]:
        found = tuple(part if name == part.name else CheckedPart(name, "ok") for name in PARTS)
        said: list[str] = []
        monkeypatch.setattr(health, "writer", lambda _config: said.append)
        monkeypatch.setattr(health, "CheckUp", lambda _strategy, _say: SimpleNamespace(run=lambda: found))
        monkeypatch.setattr(health, "health_config", lambda: SimpleNamespace(rule=DEFAULT_RULE))
        strategy = SimpleNamespace(board="b1", type=SimpleNamespace(name="t"), console=None)
        with open_store(f"sqlite:///{tmp_path}/results.db") as store:
            config: Any = SimpleNamespace(
                option=SimpleNamespace(lab_health=True, lab_provision=provision, lg_env="one.yaml"),
                stash={STRATEGY_KEY: strategy, STORE_KEY: store},
            )
            try:
                health.check_first(config)
            finally:
                assert not HealthBook(store).checks("b1", 1)[0].passed, "it is kept in any case"
        return said

    return check_first


@pytest.mark.parametrize("part", [SILENT, BROKEN_PROMPT, FELL_BACK])
@pytest.mark.parametrize("provision", [False, True])
def test_what_is_not_the_equipments_is_for_the_run_to_record(
    first: Callable[[CheckedPart, bool], list[str]], part: CheckedPart, provision: bool
) -> None:
    assert f"({part.name}: {part.failure})" in first(part, provision)[-1]


def test_a_fault_of_the_equipment_ends_a_session_before_it_measures(
    first: Callable[[CheckedPart, bool], list[str]],
) -> None:
    for part, provision in ((DEAD_PDU, False), (DEAD_PDU, True), (DEAD_STRAPS, False)):
        with pytest.raises(LabStableError, match=f"b1 cannot take runs: {part.name}: no answer"):
            first(part, provision)


def test_a_medium_that_cannot_be_selected_keeps_no_release_from_being_written(
    first: Callable[[CheckedPart, bool], list[str]],
) -> None:
    assert first(DEAD_STRAPS, True)
