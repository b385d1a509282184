"""The time of a link to the console's host is not the board's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.console import Chunk
from lab.console.model import Event, LineTiming
from lab.control.boot_progress import falls_silent, follow
from lab.errors import BoardTransientError

S = 10**9


class LateConsole:
    """A console of another host that brings its bytes when it is asked whether there are any."""

    relation = object()

    def __init__(self, *, says: bool) -> None:
        self.capture: list[Event] = []
        self._says = says

    def poll(self, _timeout_s: float) -> bool:
        return False

    def sync(self) -> bool:
        if self._says:
            self.capture.append(Chunk(1, 0, b"login: "))
        return self._says


class Watch:
    """A boot that is over its time until its prompt is there."""

    done = asks = False

    def feed(self, _data: bytes, _t_ns: int) -> None:
        self.done = True

    def check(self, _now_ns: int) -> None:
        if not self.done:
            raise BoardTransientError("no prompt", failure="boot_timeout")


def board(console: Any, now_ns: Any) -> Any:
    timeouts = SimpleNamespace(off_silence_s=1.0)
    power = SimpleNamespace(clock=SimpleNamespace(now_ns=now_ns), supplies=None, off_reason=lambda *_, **__: "")
    kind = SimpleNamespace(markers={}, timeouts=timeouts)
    return SimpleNamespace(console=console, power=power, type=kind, timing=lambda: LineTiming(115200), rails=None)


def test_a_boot_is_not_over_its_time_while_its_bytes_are_on_their_way() -> None:
    follow(board(LateConsole(says=True), lambda: 0), cast(Any, Watch()))


def test_a_boot_whose_server_has_nothing_more_has_failed() -> None:
    with pytest.raises(BoardTransientError, match="no prompt"):
        follow(board(LateConsole(says=False), lambda: 0), cast(Any, Watch()))


def test_an_outage_does_not_keep_a_board_from_falling_silent() -> None:
    now = [0]

    class AwayConsole(LateConsole):
        def poll(self, timeout_s: float) -> bool:
            now[0] += round(timeout_s * 1e9) if now[0] else 60 * S  # which brought what was missed
            return now[0] == 60 * S

    assert falls_silent(board(AwayConsole(says=False), lambda: now[0]))
