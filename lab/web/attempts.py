"""How often somebody may try a password, over a sliding window: for a name from an address, and more often for each alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from attrs import define, field

from exporters.door import origin

MOST: Final = 10  # wrong passwords for a name from an address: others are not concerned
MOST_WIDE: Final = 100  # for a name from all addresses, or from an address for all names; see `Attempts`
WINDOW_S: Final = 600.0
_MOST_KEYS: Final = 10_000


@define
class Window:
    """How often things happened in the last WINDOW_S; `now` is monotonic, in seconds."""

    now: Callable[[], float]
    _times: dict[Hashable, deque[float]] = field(factory=dict, init=False)

    def wait_s(self, key: Hashable, most: int) -> float:
        """For how long it has happened `most` times; 0: less often."""
        times = self._times.get(key, ())
        return max(0.0, times[-most] + WINDOW_S - self.now()) if len(times) >= most else 0.0

    def count(self, key: Hashable, most: int) -> None:
        """It happens now; the last `most` times are known."""
        now = self.now()
        if len(self._times) >= _MOST_KEYS:
            self._times = {each: times for each, times in self._times.items() if times[-1] > now - WINDOW_S}
        self._times.setdefault(key, deque(maxlen=most)).append(now)

    def take_back(self, key: Hashable) -> None:
        """Its last time does not count."""
        times = self._times.get(key)
        if times:
            times.pop()
        if not times:
            self.forget(key)

    def forget(self, key: Hashable) -> None:
        """It never happened."""
        self._times.pop(key, None)


@define
class Attempts:
    """The attempts that failed lately, or are being tried; `now` is monotonic, in seconds.

    MOST_WIDE slows down the guessing of many names, or from many addresses. It does not hold for a name from an address with
    which the right password came before, so that nobody can lock out people where they usually log in.
    """

    now: Callable[[], float]
    _failed: Window = field(init=False)
    _right: dict[tuple[str, str], None] = field(factory=dict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._failed = Window(self.now)

    def begin(self, name: str, address: str) -> float:
        """Count an attempt before it is tried: however many come at once, no more than MOST are.

        Returns for how long this name cannot be tried from this address, in seconds, and then counts nothing; 0: try.
        """
        with self._lock:
            limits = self._limits(name, address)
            pair = (name, origin(address))
            asked = limits if pair not in self._right else {pair: MOST}
            wait_s = max(self._failed.wait_s(key, most) for key, most in asked.items())
            if not wait_s:
                for key, most in limits.items():
                    self._failed.count(key, most)
            return wait_s

    def succeeded(self, name: str, address: str) -> None:
        """An attempt was right: it is taken back, and so are those of this name from this address that failed before."""
        with self._lock:
            pair = (name, origin(address))
            for key in self._limits(name, address):
                self._failed.take_back(key)
            self._failed.forget(pair)
            self._right.pop(pair, None)
            self._right[pair] = None
            if len(self._right) > _MOST_KEYS:
                del self._right[next(iter(self._right))]

    def _limits(self, name: str, address: str) -> dict[Hashable, int]:
        its = origin(address)
        return {(name, its): MOST, f"name {name}": MOST_WIDE, f"address {its}": MOST_WIDE}
