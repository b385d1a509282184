"""The states of boards, as `lab status` and the wall have them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Final

from attrs import frozen
from prometheus_client import Metric

from exporters.farm.build import gauge

UNKNOWN: Final = "unknown"  # board type of a board that was never measured: dashboards' choices match no empty label


@frozen
class ExportedBoard:
    """A board's state for Prometheus.

    Attributes:
        fault: whose it is, e.g. "board"; empty: unknown, or none. since: begin of the state; None: unknown.
        worse: numbers that are worse and wait for a decision; None: they are not judged yet.
        confirmed: number of those that a second night confirms and no verdict tells, by the
            state of a known failure (empty: none).
    """

    board: str
    board_type: str
    state: str
    cause: str
    fault: str
    since: dt.datetime | None
    worse: int | None
    confirmed: Mapping[str, int]


def families(boards: Collection[ExportedBoard]) -> list[Metric]:
    """Families of Prometheus: the state of each board, and its worse numbers."""
    named = [((board.board, board.board_type or UNKNOWN), board) for board in boards]
    return [
        gauge(
            "boardlab_board_state",
            "1: the state of the board, as `lab status` and the wall have it, and whose fault a problem is.",
            ["board", "board_type", "state", "fault"],
            [((*name, board.state, board.fault), 1.0) for name, board in named],
        ),
        gauge(
            "boardlab_board_state_info",
            "1: the cause of a board's problem or maintenance.",
            ["board", "board_type", "state", "cause"],
            [((*name, board.state, board.cause), 1.0) for name, board in named if board.cause],
        ),
        gauge(
            "boardlab_board_state_since_timestamp_seconds",
            "Begin of the state, where it is known.",
            ["board", "board_type"],
            [(name, board.since.timestamp()) for name, board in named if board.since],
        ),
        gauge(
            "boardlab_board_worse_numbers",
            "Numbers of the board's latest runs that are worse and wait for a decision.",
            ["board", "board_type"],
            [(name, float(board.worse)) for name, board in named if board.worse is not None],
        ),
        gauge(
            "boardlab_board_worse_confirmed",
            "Those of them that the next night, of any release, left worse and no verdict tells.",
            ["board", "board_type", "known"],
            [((*name, state), float(n)) for name, board in named for state, n in board.confirmed.items()],
        ),
    ]
