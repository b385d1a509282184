"""Moments of the user's own in a boot: the time to an application's line, behind the prompt as well as before it.

A board type, an environment or a lab declares them (docs/measure.md); each boot is timed to them beside the guide's moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from lab.benchmarks.boot import BootWatch
from lab.benchmarks.boot.samples import UNCERTAIN_SHARE, power_on
from lab.boards import BoardType, MomentPattern, OwnMoment
from lab.console.model import Moment
from lab.console.moments import find_moments
from lab.errors import BoardTransientError, ConfigurationError
from lab.host.clock import NS_PER_S, Clock
from lab.metrics import Flag, Metric, SampleRecord
from lab.metrics.declared import MOMENT_RESOLUTION_S, Declarations, moment_definition
from lab.metrics.model import sample_of
from lab.metrics.uncertainty import of_interval

OPTION: Final = "moments"  # of an environment's target
_POLL_S: Final = 1.0  # between two looks at the console


@frozen
class Awaited:
    """The moments of a boot; `error`: one did not come, behind a boot that may be good."""

    moments: Mapping[str, Moment] = field(factory=dict)
    error: BoardTransientError | None = None

    def __bool__(self) -> bool:
        return bool(self.moments) or self.error is not None


@frozen
class OwnMoments:
    """The moments that a session times its boots to, with their metrics."""

    moments: tuple[tuple[OwnMoment, Metric], ...] = ()

    def wait(self, board: Any, watch: BootWatch, clock: Clock) -> Awaited:
        """The moments of a boot that has reached its prompt; it waits for those that have not come.

        Raises:
            LabError: the console is gone.
        """
        if not self.moments:
            return Awaited()
        try:
            return Awaited(self._found(board, watch, clock))
        except BoardTransientError as error:
            return Awaited(error=error)

    def _found(self, board: Any, watch: BootWatch, clock: Clock) -> dict[str, Moment]:
        patterns = [MomentPattern(own.name, own.pattern, times=0) for own, _ in self.moments]
        began_ns = clock.now_ns()
        while True:
            came = find_moments(board.console.capture, patterns, board.timing())
            found: dict[str, Moment] = {}
            for own, _ in self.moments:
                after = self._start(own, watch)
                first = next((each for each in came if each.name == own.name and each.position > after), None)
                if first is not None:
                    found[own.name] = first
            lacking = [own for own, _ in self.moments if own.name not in found]
            if not lacking:
                return found
            left_s = max(own.timeout_s for own in lacking) - (clock.now_ns() - began_ns) / NS_PER_S
            if not board.console.poll(max(0.0, min(left_s, _POLL_S))) and left_s <= 0:
                own = lacking[0]
                raise BoardTransientError(
                    f"{own.name}: no line fits {own.pattern!r} within {own.timeout_s:g} s behind the prompt; the last it said was "
                    f"{board.tail()!r}",
                    failure="moment_missing",
                )

    def samples(
        self, found: Mapping[str, Moment], watch: BootWatch, params: Mapping[str, str], flags: frozenset[str]
    ) -> list[SampleRecord]:
        """The times to the moments of a boot.

        Args:
            params, flags: as of the boot's headline number.
        """
        power = watch.power
        doubts = {Flag.OFF_UNVERIFIED: not power.off_verified, Flag.ON_UNVERIFIED: not power.on_verified}
        from_power = flags | {flag for flag, holds in doubts.items() if holds}
        samples = []
        for own, metric in self.moments if found else ():
            end = found[own.name]
            start: Any = power_on(power, watch.moments[0])
            if own.since:
                start = next(each for each in watch.moments if each.name == own.since)
            value_s = (end.t_ns - start.t_ns) / NS_PER_S
            bound_s = of_interval(start.uncertainty_ns, end.uncertainty_ns) / NS_PER_S
            unsure = {Flag.UNCERTAIN} if bound_s > UNCERTAIN_SHARE * value_s else frozenset()
            its = (flags if own.since else from_power) | unsure
            window = (start.position, end.position)
            samples.append(sample_of(metric, params, value_s, bound_s, its, window, declared=True))
        return samples

    @staticmethod
    def _start(own: OwnMoment, watch: BootWatch) -> int:
        """The position that the moment is behind.

        Raises:
            BoardTransientError: the moment that it counts from did not come.
        """
        if not own.since:
            return 0
        start = next((each for each in watch.moments if each.name == own.since), None)
        if start is None:
            raise BoardTransientError(
                f"{own.name} counts from {own.since}, which did not come in this boot", failure="moment_missing"
            )
        return start.position


def own_moments(board: BoardType, options: object, declarations: Declarations, where: str) -> OwnMoments:
    """The moments of a type, of the environment's option and of metrics.toml; a later one of a name replaces an earlier.

    Raises:
        ConfigurationError: one is wrong; the message names its place.
    """
    found = {own.name: own for own in board.own_moments}
    for place, given in ((where, options or []), (str(declarations.path), list(declarations.moments.values()))):
        if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
            raise ConfigurationError(f"{place}: a list of moments is expected, each with a name and a pattern")
        for each in given:
            try:
                own = OwnMoment(**each)
            except (TypeError, ValueError) as error:
                raise ConfigurationError(f"{place}: {dict(each)}: {error}; a moment has {_KEYS}") from error
            found[own.name] = own
    names = {marker.name for marker in board.markers}
    made = []
    for own in found.values():
        if own.since and own.since not in names:
            raise ConfigurationError(
                f"moment {own.name}: since = {own.since!r} is no moment of board type {board.name}; there are: {', '.join(sorted(names))}"
            )
        made.append((own, _metric(own, declarations)))
    return OwnMoments(tuple(made))


_KEYS: Final = "name, pattern, and since or timeout_s (docs/measure.md)"


def _metric(own: OwnMoment, declarations: Declarations) -> Metric:
    declared = own.name in declarations.metrics
    return declarations.metric(
        own.name,
        unit="s",
        better="lower",
        resolution=None if declared else MOMENT_RESOLUTION_S,
        definition=None if declared else moment_definition(own.pattern, own.since),
    )
