"""Checks as rows, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from attrs import asdict

from lab.health.model import Check, Outcome, Part
from lab.results.healthmodels import HealthCheckRow
from lab.results.rows import json_of

_OUTCOMES: Final = frozenset(get_args(Outcome))


def row_of(check: Check) -> HealthCheckRow:
    """A check that is to be kept."""
    found = json_of("found", {"parts": [asdict(part) for part in check.parts]})
    return HealthCheckRow(
        board=check.board,
        board_type=check.board_type,
        host=check.host,
        env=check.env,
        person=check.person,
        job_id=check.job_id,
        found=found,
        duration_s=check.duration_s,
        at=check.at,
    )


def check_of(row: HealthCheckRow) -> Check:
    """A check as the store has it; parts that cannot be read are left out."""
    return Check(
        board=row.board,
        board_type=row.board_type,
        host=row.host,
        at=row.at,
        parts=tuple(_part(part) for part in row.found.get("parts", []) if part.get("outcome") in _OUTCOMES),
        duration_s=row.duration_s,
        env=row.env,
        person=row.person,
        job_id=row.job_id,
        id=row.id,
    )


def _part(found: Mapping[str, Any]) -> Part:
    words = {key: str(found.get(key, "")) for key in ("name", "failure", "fault", "message", "said")}
    return Part(outcome=cast(Outcome, found["outcome"]), **words)
