"""The time line of a boot: the readings of its recording that the evidence leaves, and a ± that covers them.

All instants are of the host's clock: S, the text that starts the kernel; Z, the kernel's time 0; G, the start of the
prompt's program; P, the prompt. D = Z − S and Y = P − G are the same in all boots of a board with one software, but
for a spread that is learned from them: so a text that was said before, or a prompt that was drawn again, shows in
them. A kernel, too, leaves its time 0: no line of a kernel comes sooner than its own clock says. A stage's text that
is lost, and comes from elsewhere, moves against the texts before and behind it, or stands between other lines than in
other boots.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from attrs import asdict, evolve, field, frozen

from lab.benchmarks.boot.records import START, MomentLike
from lab.benchmarks.boot.samples import REFUSED_SHARE
from lab.metrics import Flag, SampleRecord
from lab.metrics.uncertainty import SIGMA_OF_MAD, UNCERTAIN_SHARE

SPREADS: Final = 4  # beyond which a boot is not usual
KNOWN: Final = 3  # boots from which on something is usual
RECENT: Final = 20  # boots that are learned from: a boot of a long run costs no more than one of a short
SURE_S: Final = 0.05  # an answer tells the kernel's time 0 no better on a busy board, whatever the getty does
STEP_S: Final = 0.01  # of /proc/uptime and of a process's start: 1/USER_HZ, truncated (proc(5))
# The rates of two crystals differ by at most 200 ppm; the rest is what a boot's stamps tell of them
DRIFT: Final = 500e-6
QUANTITIES: Final = ("zero", "getty", "answer", "tries", "again", "begun", "way")
KERNEL: Final = " kernel"
DRAWN: Final = "drawn"
PROMPT: Final = "prompt"  # for the moment that ends the boot, login or shell
_NOISE: Final = re.compile(r"[^ -~\n]")  # on the line, mostly at power on
_NUMBER: Final = re.compile(r"\w*\d\w*")


@frozen
class Usual:
    """The usual value of a quantity on a board with one software.

    Attributes:
        spread_s: the standard deviation of good boots.
        reach_s: how far from it a good boot may be.
    """

    middle_s: float
    spread_s: float
    reach_s: float

    @classmethod
    def of(cls, values_s: Sequence[float]) -> Self | None:
        """Learn it from boots of which most are good; None: from too few.

        The fewer they are, the less is known of their spread. Two truncated steps are no difference, nor is a USB
        adapter's wait (16 ms).
        """
        if len(values_s) < KNOWN:
            return None
        middle_s = statistics.median(values_s)
        spread_s = SIGMA_OF_MAD * statistics.median(abs(value_s - middle_s) for value_s in values_s)
        reach_s = SPREADS * (1 + 2 * SPREADS / (len(values_s) - 1)) * spread_s
        return cls(middle_s, spread_s, max(reach_s, 2 * STEP_S))

    def beyond_s(self, least_s: float, most_s: float | None = None) -> float:
        """Return the signed distance of a value from the usual one.

        0: a good boot may be so far. With two values it is the least distance of all between them.
        """
        off_s = min(max(self.middle_s, least_s), least_s if most_s is None else most_s) - self.middle_s
        return off_s if abs(off_s) > self.reach_s else 0.0

    @property
    def share(self) -> float:
        """The spread as a share of the usual value."""
        return self.spread_s / abs(self.middle_s) if self.middle_s else 0.0

    @property
    def near_s(self) -> float:
        """How far from the usual value most good boots are."""
        return max(SPREADS / 2 * self.spread_s, 2 * STEP_S)

    def off_s(self, value_s: float) -> float:
        """How far the moment may be from the usual one; 0: it is where most good boots are."""
        off_s = abs(value_s - self.middle_s)
        return off_s + self.near_s if off_s > self.near_s else 0.0


@frozen
class TimeLine:
    """The quantities of a boot, in s; None: unknown.

    Attributes:
        zero: D.
        getty: Y.
        answer: from the carriage return to the prompt's answer.
        tries: number of the bootloader's errors, after which it tried another place.
        again: how often a text of the bootloader came once more; None: never.
        begun: D by the first line of the kernel that runs, which has lost no ticks yet.
        way: from the question to the answer that has the kernel's clock, which was read in between.
        busy: for how long the kernel's lines kept the console busy just before the prompt; None: not at all.
        drawn: the Y of other texts that may be the prompt.
        open: the prompt may be another text, as far as the console tells.
        second: the kernel that runs may be a second one.
        stages: both moments -> the time between; if both are the kernel's lines, less that of its clock, and named
            `KERNEL`.
        places: a bootloader's moment -> its `place_in`.
        quoted: moments of the kernel whose line came twice, once perhaps damaged.
    """

    zero: float | None = None
    getty: float | None = None
    answer: float | None = None
    tries: float | None = None
    again: float | None = None
    begun: float | None = None
    way: float | None = None
    busy: float | None = None
    drawn: tuple[float, ...] = ()
    open: bool = False
    second: bool = False
    stages: Mapping[str, float] = field(factory=dict)
    places: Mapping[str, str] = field(factory=dict)
    quoted: tuple[str, ...] = ()

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Read it from an attempt's details."""
        numbers = {name: document[name] for name in (*QUANTITIES, "busy") if isinstance(document.get(name), float)}
        return cls(
            **numbers,
            drawn=tuple(document.get("drawn", ())),
            open=bool(document.get("open")),
            second=bool(document.get("second")),
            stages=dict(document.get("stages") or {}),
            places=dict(document.get("places") or {}),
            quoted=tuple(document.get("quoted", ())),
        )

    def document(self) -> dict[str, Any]:
        """It for an attempt's details."""
        facts = asdict(self).items()
        return {name: value for name, value in facts if value is not False and value not in (None, (), {})}

    def boundaries(self) -> Iterator[tuple[str, str, str]]:
        """Each moment between two stages, and the names of both."""
        for before, behind in itertools.pairwise(self.stages):
            moment = before.split()[1]
            if moment == behind.split()[0]:
                yield moment, before, behind

    def quantities(self) -> dict[str, float]:
        """All by name."""
        values = {name: value for name in QUANTITIES if (value := getattr(self, name)) is not None}
        return {**values, **self.stages, **self.drawn_by_name()}

    def drawn_by_name(self) -> dict[str, float]:
        """`drawn`, each with a name of a quantity."""
        return {f"{DRAWN} {number}": value for number, value in enumerate(self.drawn)}


NO_LINE: Final = TimeLine()


def place_in(lines: Sequence[str], number: int) -> str:
    """A digest of a line and its nearest full neighbours, numbers and noise aside."""
    full = [at for at, line in enumerate(lines) if line.strip()]
    first = max((at for at in full if at < number), default=number)
    last = min((at for at in full if at > number), default=number)
    text = _NUMBER.sub("#", _NOISE.sub("", "\n".join(lines[first : last + 1])))
    return f"{zlib.crc32(text.encode()):08x}"


def moments_out_of_place(line: TimeLine, others: Iterable[TimeLine]) -> frozenset[str]:
    """Moments whose text a program may have quoted.

    Their place is no other boot's, although most of those are alike, or their line came twice.
    """
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for other in others:
        for moment, place in other.places.items():
            places[moment][place] += 1
    return frozenset(line.quoted).union(
        moment
        for moment, place in line.places.items()
        if (counts := places[moment]) and place not in counts and 2 * max(counts.values()) > counts.total() >= KNOWN
    )


@frozen
class TimeLineVerdict:
    """The doubts that the evidence leaves.

    Attributes:
        reach_s: moment -> how far it may be from the one that was taken.
    """

    flags: frozenset[Flag] = frozenset()
    reach_s: Mapping[str, float] = field(factory=dict)


def learn(lines: Iterable[TimeLine]) -> dict[str, Usual]:
    """Learn each quantity's usual value from other boots.

    Of a text that comes again there is one only where most boots have it.
    """
    values_s: dict[str, list[float]] = defaultdict(list)
    lines = list(lines)
    for line in lines:
        for name, value_s in line.quantities().items():
            values_s[name].append(value_s)
    usual = {
        name: Usual.of(values)
        for name, values in values_s.items()
        if 2 * len(values) > len(lines) or not name.startswith((DRAWN, "again"))
    }
    return {name: quantity for name, quantity in usual.items() if quantity is not None}


def judge(line: TimeLine, usual: Mapping[str, Usual], out_of_place: Collection[str] = ()) -> TimeLineVerdict:
    """Exclude unusual readings of a boot, and cover those that are left."""
    way, answer, tries, again = (usual.get(name) for name in ("way", "answer", "tries", "again"))
    # So much later than usual the answer came, and so much earlier the kernel's time 0 may be
    late_s = way.off_s(line.way) if way and line.way and line.way > way.middle_s else 0.0
    start, prompt = _judge_start(line, usual, late_s), _judge_prompt(line, usual, late_s)
    flags = {
        Flag.NOT_CROSS_CHECKED: "getty" not in usual
        or line.getty is None
        or ("zero" not in usual and line.zero is not None),
        Flag.FLOW_UNVERIFIED: start.is_unusual
        or line.second
        or (tries is not None and tries.beyond_s(line.tries or 0.0) != 0)
        or (again or Usual(0.0, 0.0, 0.0)).beyond_s(line.again or 0.0) != 0,
        Flag.PROMPT_REPEATED: prompt.is_unusual
        or (answer is not None and line.answer is not None and answer.beyond_s(line.answer) > 0),
    }
    reaches_s = _moved_s(line, usual, out_of_place)
    for moment, doubt in ((START, start), (PROMPT, prompt)):
        reaches_s[moment] = max(doubt.reach_s, reaches_s.get(moment, 0.0))
    return TimeLineVerdict(
        frozenset(flag for flag, holds in flags.items() if holds),
        {moment: reach_s for moment, reach_s in reaches_s.items() if reach_s},
    )


@frozen
class _Doubt:
    """A doubt about a moment: its reach, and whether it is unusual."""

    reach_s: float = 0.0
    is_unusual: bool = False


def _judge_start(line: TimeLine, usual: Mapping[str, Usual], late_s: float) -> _Doubt:
    """Judge the kernel's start by its time 0.

    A start that is early may have been said by a script, or the kernel started twice. A text that was said elsewhere
    takes from the stage before it what it gives to the kernel's entry; a second kernel leaves that stage as it is.
    """
    zero, begun = usual.get("zero"), usual.get("begun")
    if zero is None or line.zero is None:
        return _Doubt()
    reach_s, is_unusual = zero.off_s(line.zero), zero.beyond_s(line.zero - late_s, line.zero) > 0
    before_start = itertools.takewhile(lambda stage: stage.split()[1] != START, line.stages)
    is_steadier = all(usual[stage].share < zero.share for stage in before_start if stage in usual)
    # Where only the kernel's entry differs, not the bootloader as on a busy host, each boot may have had two kernels
    least_s = zero.near_s if is_steadier and zero.near_s > SURE_S else 0.0
    is_late = line.zero > zero.middle_s
    if is_late and begun and line.begun is not None and not begun.off_s(line.begun):  # the kernel lost ticks
        return _Doubt(max(least_s, min(reach_s, abs(line.begun - begun.middle_s) + begun.reach_s)))
    load = next((name for name in line.stages if name.split()[1] == START), "")
    if load in usual and not is_unusual:
        sooner_s = math.copysign(1.0, line.zero - zero.middle_s) * (usual[load].middle_s - line.stages[load])
        reach_s = min(reach_s, max(0.0, sooner_s + usual[load].near_s))
    return _Doubt(max(least_s, reach_s), is_unusual)


def _judge_prompt(line: TimeLine, usual: Mapping[str, Usual], late_s: float) -> _Doubt:
    """Judge the prompt by its program's start and by similar texts.

    A prompt that is late may have been drawn again, one that is early is another text.
    """
    getty = usual.get("getty")
    if getty is None or line.getty is None:
        return _Doubt(0.0, bool(line.open or line.drawn))
    # Between these the prompt came behind its program's start, but for the kernel's lines before it
    first_s, last_s = line.getty - (line.busy or 0.0), line.getty + late_s
    reach_s = max(getty.off_s(line.getty), getty.off_s(last_s))
    if getty.reach_s > 2 * SURE_S:  # a prompt that was lost may have been drawn again within it
        reach_s = max(reach_s, abs(last_s - getty.middle_s) + getty.reach_s)
    drawn = line.drawn_by_name()
    lacking = [name for name in usual if name.startswith(DRAWN) and name not in drawn]
    # A prompt before the program's start may be that of one that was started before, and ended
    apart_s = {
        name: abs(value - line.getty)
        for name, value in drawn.items()
        if value < 0 or getty.beyond_s(value + late_s) >= 0 or name in usual
    }
    apart_s |= {name: abs(usual[name].middle_s - line.getty) + usual[name].reach_s for name in lacking}
    odd_s = [
        s for name, s in apart_s.items() if name not in usual or name in lacking or usual[name].beyond_s(drawn[name])
    ]
    is_unusual = getty.beyond_s(first_s, last_s) != 0 or max(odd_s, default=0.0) > 2 * STEP_S
    return _Doubt(max(reach_s, *apart_s.values(), 0.0), is_unusual)


def _moved_s(line: TimeLine, usual: Mapping[str, Usual], out_of_place: Collection[str]) -> dict[str, float]:
    """The reach of moments whose texts came from elsewhere, in s.

    A text that is late by some time makes the stage before it longer, and the one behind it shorter, by as much. Where
    a text is out of place, either stage may be as long as usual.
    """
    moved_s: dict[str, float] = {}
    for moment, *stages in line.boundaries():
        off_s = [line.stages[name] - usual[name].middle_s for name in stages if name in usual]
        reach_s = [usual[name].reach_s for name in stages if name in usual]
        if moment in out_of_place and off_s:
            moved_s[moment] = max(abs(off) + reach for off, reach in zip(off_s, reach_s, strict=True))
        elif len(off_s) == len(stages) and moment != START:  # of the kernel's start its time 0 tells
            least_s = max(off_s[0] - reach_s[0], -off_s[1] - reach_s[1])
            most_s = min(off_s[0] + reach_s[0], -off_s[1] + reach_s[1])
            # the text may be late by this; by nothing, it is its own
            if least_s <= most_s and max(least_s, -most_s) > 0:
                moved_s[moment] = max(-least_s, most_s)
    return moved_s


@frozen
class TimeLineJudgement:
    """A boot's time line and verdict.

    Attributes:
        added: flags of the verdict that no one else gave.
    """

    line: TimeLine
    verdict: TimeLineVerdict
    added: frozenset[str] = frozenset()

    @classmethod
    def of(cls, line: TimeLine, others: Sequence[TimeLine], given: frozenset[str]) -> Self:
        """Judge a boot whose numbers have these flags already, beside others."""
        verdict = judge(line, learn(others), moments_out_of_place(line, others))
        return cls(line, verdict, verdict.flags - given)

    def document(self, bare: Iterable[SampleRecord]) -> dict[str, Any]:
        """It for an attempt's details, with the ± of its bare samples where the verdict widens one."""
        bare = list(bare)
        stamps = {"stamps": [sample.uncertainty for sample in bare]} if self.verdict.reach_s else {}
        return {**self.line.document(), "added": sorted(self.added), **stamps}

    def covered(
        self, bare: Iterable[SampleRecord], moments: Iterable[MomentLike], prompt_at: int
    ) -> list[SampleRecord]:
        """The samples with the verdict's flags, and a ± that covers the readings left.

        Args:
            moments: of the boot.
            prompt_at: the prompt's position in the recording.
        """
        bare = list(bare)
        reaches: dict[int, float] = {}
        for moment in moments:
            begin = moment.position - len(moment.text.encode()) * (moment.name == START)
            for at in (moment.position, begin):  # a moment of the user's may end at the same byte
                reaches[at] = max(reaches.get(at, 0.0), self.verdict.reach_s.get(moment.name, 0.0))
        reaches[prompt_at] = self.verdict.reach_s.get(PROMPT, 0.0)
        covered = []
        for sample in bare:
            reach_s = max(reaches.get(at, 0.0) for at in (sample.log_start or 0, sample.log_end or 0))
            unsure = {Flag.UNCERTAIN} if reach_s > REFUSED_SHARE * sample.value else frozenset()
            flags = frozenset(sample.flags | self.added | unsure)
            covered.append(evolve(sample, uncertainty=max(sample.uncertainty, reach_s), flags=flags))
        return covered


def bare_samples(samples: Sequence[SampleRecord], document: Mapping[str, Any]) -> list[SampleRecord]:
    """The stored samples of a boot as they were before its judgement."""
    added = frozenset(map(str, document.get("added", ())))
    stamps_s = document.get("stamps") or [sample.uncertainty for sample in samples]
    bare = []
    for sample, stamp_s in zip(samples, stamps_s, strict=True):
        widened = {Flag.UNCERTAIN} if sample.uncertainty != stamp_s <= UNCERTAIN_SHARE * sample.value else frozenset()
        bare.append(evolve(sample, uncertainty=stamp_s, flags=frozenset(sample.flags - added - widened)))
    return bare
