"""Names that users' files, programs and dashboards hold stay: commands, options, keys, metrics, the API."""

from __future__ import annotations

import pytest
import stable_names


@pytest.fixture(scope="module")
def now() -> set[str]:
    return set(stable_names.text().splitlines())


KEPT = set(stable_names.PAGE.read_text(encoding="utf-8").splitlines())


def test_no_stable_name_is_gone(now: set[str]) -> None:
    assert KEPT - now == set(), "deprecate a name for a minor version first: docs/farm/upgrade.md"


def test_every_name_is_on_the_list(now: set[str]) -> None:
    assert now - KEPT == set(), "is it to stay? Then `python tools/stable_names.py` adds it"


@pytest.mark.parametrize(
    "name",
    [
        "command lab results show",
        "option lab report --output",
        "exit 4",
        "pytest-option --lab-cycles",
        "pytest-fixture measure",
        "metric boot.time [s]",
        "flag not_cross_checked",
        "failure hang_kernel",
        "prometheus boardlab_board_state{board, board_type, fault, state}",
        "http POST /api/v1/boards/{board}/reserve",
        "entry-point boardlab.sections",
        "farm.yaml boards.env",
        "release media.image.sha256",
        "board-type prompts.login",
        "environment RailSensors backend",
        "json results show measurements.summary.uncertainty",
        "json results export runs.attempts.moments.t_ns",
        "json judge run effect",
        "json status boards.state",
        "store samples.uncertainty",
    ],
)
def test_each_kind_of_name_is_held(name: str) -> None:
    assert name in KEPT
