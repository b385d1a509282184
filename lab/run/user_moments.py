"""User-defined moments of a boot, and numbers that the board prints in each boot.

A moment is the time to a line of an application, which may come before the prompt or after it. A number is part of
such a line, or of the output of a command at the shell. A board type, an environment or a lab's metrics.toml declares
them (docs/measure.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen, validators

from lab.benchmarks.boot import BootWatch, MomentLike
from lab.benchmarks.boot.samples import power_on
from lab.boards import BoardType, MomentPattern, OwnMoment
from lab.boards.markers import check_regex
from lab.console.model import Event, LineTiming
from lab.console.moments import MomentFinder, StampedLine, stamp_lines
from lab.errors import BoardTransientError, ConfigurationError
from lab.host.clock import NS_PER_S, Clock
from lab.metrics import Flag, Metric, Moment, SampleRecord
from lab.metrics.lab_metrics import MOMENT_RESOLUTION_S, VALUE, Declarations, has_value, moment_definition
from lab.metrics.model import sample_of
from lab.metrics.uncertainty import UNCERTAIN_SHARE, of_interval

OPTION: Final = "moments"  # option of an environment's target
_POLL_S: Final = 1.0  # longest wait for bytes of the console before the time limit is checked again
_KEYS: Final = "name, pattern, and since or timeout_s (docs/measure.md)"
_NUMBER_KEYS: Final = "name, pattern with a group (?P<value>…), and command or timeout_s (docs/measure.md)"


@frozen
class OwnNumber:
    """The declaration of a number that the board prints in each boot.

    Attributes:
        name: name of its metric.
        pattern: regular expression within one line; its group `value` matches the number.
        command: command at the shell that prints the line; empty: the board prints it by itself on the console.
        timeout_s: how long to wait for the console's line after the prompt.
    """

    name: str
    pattern: str = field(validator=check_regex)
    command: str = field(default="", validator=validators.instance_of(str))
    timeout_s: float = field(default=60.0, validator=[validators.instance_of((int, float)), validators.gt(0)])


@frozen
class ReadNumber:
    """A number that was read in a boot.

    Attributes:
        window: start and end of its line in the console's stream; None for the output of a command.
    """

    value: float
    window: tuple[int | None, int | None]


@frozen
class UserMomentResult:
    """The user's moments and numbers of one boot; false if it has neither them nor an error.

    Attributes:
        moments: by name.
        numbers: by name of the metric.
        error: a moment or number did not come; the boot itself may be good all the same.
    """

    moments: Mapping[str, Moment] = field(factory=dict)
    numbers: Mapping[str, ReadNumber] = field(factory=dict)
    error: BoardTransientError | None = None

    def __bool__(self) -> bool:
        return bool(self.moments) or bool(self.numbers) or self.error is not None


@frozen
class UserMoments:
    """The moments and numbers that a session measures in each boot, each with its metric."""

    moments: tuple[tuple[OwnMoment, Metric], ...] = ()
    numbers: tuple[tuple[OwnNumber, Metric], ...] = ()

    def wait(self, board: Any, watch: BootWatch, clock: Clock) -> UserMomentResult:
        """Wait until a boot that has reached its prompt has all moments and numbers.

        One that does not come in time is the result's `error`, and is not raised.

        Raises:
            LabError: the console is gone.
        """
        try:
            moments = self._wait_for_all(board, watch, clock) if self.moments else {}
            # Numbers of commands come last: they need a login, which delays the services that are still starting.
            numbers = sorted((number for number, _ in self.numbers), key=lambda number: bool(number.command))
            return UserMomentResult(moments, {number.name: _read(number, board, clock) for number in numbers})
        except BoardTransientError as error:
            return UserMomentResult(error=error)

    def _wait_for_all(self, board: Any, watch: BootWatch, clock: Clock) -> dict[str, Moment]:
        """Wait for all moments, and return them by name.

        Raises:
            BoardTransientError: one did not come within its limit.
            LabError: the console is gone.
        """
        patterns = [MomentPattern(own.name, own.pattern, times=0) for own, _ in self.moments]
        start_ns = clock.now_ns()
        finder, matches, read = MomentFinder(patterns, board.timing()), list[Moment](), 0
        while True:
            events = board.console.capture[read:]
            read += len(events)
            matches += [match for event in events for match in finder.feed(event)]
            moments: dict[str, Moment] = {}
            for own, _ in self.moments:
                after = self._position_of_start(own, watch)
                first = next((match for match in matches if match.name == own.name and match.position > after), None)
                if first is not None:
                    moments[own.name] = first
            missing = [own for own, _ in self.moments if own.name not in moments]
            if not missing:
                return moments
            remaining_s = max(own.timeout_s for own in missing) - (clock.now_ns() - start_ns) / NS_PER_S
            if not board.console.poll(max(0.0, min(remaining_s, _POLL_S))) and remaining_s <= 0:
                own = missing[0]
                raise BoardTransientError(
                    f"{own.name}: no line matches {own.pattern!r} within {own.timeout_s:g} s after the prompt; the "
                    f"console's last output was {board.tail()!r}",
                    failure="moment_missing",
                )

    def samples(
        self, result: UserMomentResult, watch: BootWatch, params: Mapping[str, str], flags: frozenset[str]
    ) -> list[SampleRecord]:
        """Return the times to the moments of a boot, and its numbers, as samples.

        Args:
            params, flags: those of the boot time of this boot.
        """
        moments = result.moments
        power = watch.power
        doubts = {Flag.OFF_UNVERIFIED: not power.off_verified, Flag.ON_UNVERIFIED: not power.on_verified}
        flags_from_power = flags | {flag for flag, applies in doubts.items() if applies}
        samples = []
        for own, metric in self.moments if moments else ():
            end = moments[own.name]
            start: Any = power_on(power, watch.moments[0])
            if own.since:
                start = _event(own.since, watch)
            value_s = (end.t_ns - start.t_ns) / NS_PER_S
            bound_s = of_interval(start.uncertainty_ns, end.uncertainty_ns) / NS_PER_S
            unsure = {Flag.UNCERTAIN} if bound_s > UNCERTAIN_SHARE * value_s else frozenset()
            all_flags = (flags if own.since else flags_from_power) | unsure
            window = (start.position, end.position)
            samples.append(sample_of(metric, params, value_s, bound_s, all_flags, window, declared=True))
        for number, metric in self.numbers if result.numbers else ():
            read = result.numbers[number.name]
            samples.append(sample_of(metric, params, read.value, None, flags, read.window, declared=True))
        return samples

    @staticmethod
    def _position_of_start(own: OwnMoment, watch: BootWatch) -> int:
        """Return the position in the console's stream after which a moment counts.

        Raises:
            BoardTransientError: the moment that its time begins at did not come.
        """
        if not own.since:
            return 0
        start = _event(own.since, watch)
        if start is None:
            raise BoardTransientError(
                f"{own.name}: its time begins at {own.since}, which did not come in this boot; correct `since`, or "
                "look at the boot's log",
                failure="moment_missing",
            )
        return start.position


def _read(number: OwnNumber, board: Any, clock: Clock) -> ReadNumber:
    """Read a number from a board that has reached its prompt; wait for the console's line.

    Raises:
        BoardTransientError: no line has it (`moment_missing`).
    """
    if number.command:
        answer = board.asked(number.command)
        for line in answer[1] if answer else ():
            if match := re.search(number.pattern, line.rstrip("\r\n")):
                return ReadNumber(_value(number, match), (None, None))
        raise BoardTransientError(
            f"{number.name}: no line of `{number.command}` matches {number.pattern!r}; "
            + ("the board has no shell" if answer is None else f"the output was {' '.join(answer[1])[-200:]!r}"),
            failure="moment_missing",
        )
    start_ns = clock.now_ns()
    while True:
        if (read := _read_console(number, board.console.capture, board.timing())) is not None:
            return read
        remaining_s = number.timeout_s - (clock.now_ns() - start_ns) / NS_PER_S
        if not board.console.poll(max(0.0, min(remaining_s, _POLL_S))) and remaining_s <= 0:
            raise BoardTransientError(
                f"{number.name}: no line matches {number.pattern!r} within {number.timeout_s:g} s after the prompt; "
                f"the console's last output was {board.tail()!r}",
                failure="moment_missing",
            )


def _read_console(number: OwnNumber, events: Sequence[Event], timing: LineTiming) -> ReadNumber | None:
    """Return the number in the first whole line that matches; None: none has come yet."""
    for line in stamp_lines(events, timing):
        if isinstance(line, StampedLine) and line.data.endswith(b"\n"):
            match = re.search(number.pattern, line.data.decode("utf-8", "replace").rstrip("\r\n"))
            if match is not None:
                return ReadNumber(_value(number, match), (line.position, line.position + len(line.data)))
    return None


def _value(number: OwnNumber, match: re.Match[str]) -> float:
    """Return the number in the group `value` of a match.

    Raises:
        BoardTransientError: it is not a finite number.
    """
    try:
        value = float(match[VALUE])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise BoardTransientError(
            f"{number.name}: {match[VALUE]!r} in {match.string.strip()!r} is not a number; let the group `value` of "
            "its pattern match digits only",
            failure="moment_missing",
        )
    return value


def _event(name: str, watch: BootWatch) -> MomentLike | None:
    """Return the moment of this name that the boot's stages use, else the first one; None: it did not come."""
    first = next((moment for moment in watch.moments if moment.name == name), None)
    return watch.order.get(name, first)


def read_user_moments(board: BoardType, options: object, declarations: Declarations, place: str) -> UserMoments:
    """Read the moments and numbers of a board type, of an environment's option and of metrics.toml, in this order.

    A later declaration replaces an earlier one of the same name.

    Args:
        options: the environment's option, as YAML has it.
        place: where the option stands, for messages.

    Raises:
        ConfigurationError: a declaration is wrong; the message names its place.
    """
    by_name: dict[str, OwnMoment | OwnNumber] = {own.name: own for own in board.own_moments}
    lists = ((place, options or []), (str(declarations.path), list(declarations.moments.values())))
    for source, documents in lists:
        if not isinstance(documents, list) or not all(isinstance(document, Mapping) for document in documents):
            raise ConfigurationError(f"{source}: write a list of moments, each with a name and a pattern")
        for document in documents:
            is_number = has_value(str(document.get("pattern", "")))
            kind: type[OwnMoment | OwnNumber] = OwnNumber if is_number else OwnMoment
            try:
                own = kind(**document)
            except (TypeError, ValueError) as error:
                what = f"a number has {_NUMBER_KEYS}" if is_number else f"a moment has {_KEYS}"
                raise ConfigurationError(f"{source}: {dict(document)}: {error}; {what}") from error
            by_name[own.name] = own
    names = {marker.name for marker in board.markers}
    moments, numbers = [], []
    for own in by_name.values():
        if isinstance(own, OwnNumber):
            numbers.append((own, declarations.metric(own.name)))
            continue
        if own.since and own.since not in names:
            raise ConfigurationError(
                f"moment {own.name}: since = {own.since!r} is no moment of board type {board.name}; there are: "
                f"{', '.join(sorted(names))}"
            )
        is_declared = own.name in declarations.metrics
        metric = declarations.metric(
            own.name,
            unit="s",
            better="lower",
            resolution=None if is_declared else MOMENT_RESOLUTION_S,
            definition=None if is_declared else moment_definition(own.pattern, own.since),
        )
        moments.append((own, metric))
    return UserMoments(tuple(moments), tuple(numbers))
