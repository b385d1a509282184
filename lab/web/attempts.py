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
    """The attempts that failed lately; `now` is monotonic, in seconds."""

    now: Callable[[], float]
    _failed: dict[str, deque[float]] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def wait_s(self, *keys: str) -> float:
        """For how long nothing is tried for any of these; 0: now."""
        now = self.now()
        with self._lock:
            return max((self._wait_s(key, now) for key in keys), default=0.0)

    def failed(self, *keys: str) -> None:
        """An attempt failed for these."""
        now = self.now()
        with self._lock:
            if len(self._failed) >= _MOST_KEYS:
                self._failed = {key: times for key, times in self._failed.items() if times[-1] > now - WINDOW_S}
            for key in keys:
                self._failed.setdefault(key, deque(maxlen=MOST)).append(now)

    def succeeded(self, key: str) -> None:
        """An attempt was right: what failed before is forgiven."""
        with self._lock:
            self._failed.pop(key, None)

    def _wait_s(self, key: str, now: float) -> float:
        times = self._failed.get(key)
        return max(0.0, times[0] + WINDOW_S - now) if times is not None and len(times) == MOST else 0.0
