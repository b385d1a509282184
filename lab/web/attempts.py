"""How often somebody may try a password: a limit for each address and for each name, over a sliding window."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, field

MOST: Final = 10
WINDOW_S: Final = 600.0
_MOST_KEYS: Final = 10_000


@define
class Attempts:
    """The attempts that failed lately, or are being tried; `now` is monotonic, in seconds."""

    now: Callable[[], float]
    _failed: dict[str, deque[float]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def begin(self, *keys: str) -> float:
        """Count an attempt for all of these before it is tried: however many come at once, no more than MOST are.

        Returns for how long nothing is tried for one of these, in seconds, and then counts nothing; 0: try.
        """
        now = self.now()
        with self._lock:
            wait_s = max((self._wait_s(key, now) for key in keys), default=0.0)
            if wait_s:
                return wait_s
            if len(self._failed) >= _MOST_KEYS:
                self._failed = {key: times for key, times in self._failed.items() if times[-1] > now - WINDOW_S}
            for key in keys:
                self._failed.setdefault(key, deque(maxlen=MOST)).append(now)
            return 0.0

    def succeeded(self, *keys: str, forgiven: str = "") -> None:
        """An attempt that was begun for these was right: it is taken back, and for `forgiven` all that failed before."""
        with self._lock:
            for key in keys:
                times = self._failed.get(key)
                if times:
                    times.pop()
                if times is not None and (key == forgiven or not times):
                    del self._failed[key]

    def _wait_s(self, key: str, now: float) -> float:
        times = self._failed.get(key)
        return max(0.0, times[0] + WINDOW_S - now) if times is not None and len(times) == MOST else 0.0
