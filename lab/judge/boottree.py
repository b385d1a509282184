"""One tree of a boot over the clocks of host, U-Boot, kernel and systemd.

Its stages are those of the measured boots, by the host's stamps; the parts inside them are of the diagnostic boots,
placed by how their clock is related to the host's. Parts are together as long as their whole: what nothing explains is
a part of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from lab.benchmarks.boot.crosscheck import KERNEL_STARTS
from lab.benchmarks.diagnosis.kernel import BETWEEN
from lab.benchmarks.diagnosis.parts import (
    BOOTSTAGE,
    INITCALLS,
    MODULES,
    SHORT,
    STAGES,
    UNITS,
    PartTime,
)
from lab.benchmarks.diagnosis.reports import ACCUMULATED
from lab.metrics import Moment, uncertainty
from lab.metrics.catalogue import BOOT_POWER_ON, HEADLINE_NAMES
from lab.results import Attempt
from lab.results.listing import Overview

UNEXPLAINED: Final = "(not explained)"
SAVED: Final = "(console output, which the diagnostic boots save)"
IN_PARALLEL: Final = " (in parallel)"  # ends the name of a unit that the boot did not wait for
_WHOLE: Final = "Power on to the last moment"
_TO_CLOCK: Final = "(before the kernel's clock)"
_KERNEL, _KERNEL_AND_USER, _GETTY = "Kernel, from its start to init", "Kernel and user space", "getty, to its prompt"
_MAIN_LOOP, _AUTOBOOT = "main_loop", "autoboot"  # U-Boot marks the one just before it prints the other
_OTHER_BOOTS: Final = 0.05  # of user space, by which its length differs between a release's boots
_SAME_S: Final = 1e-6  # of two sums of nanoseconds


@frozen
class BootNode:
    """A part of the boot on the host's clock, with the parts inside it, which are together as long at most.

    Attributes:
        section: of SECTIONS; "": of no one source, as what nothing explains.
        start_s: since power on, or since the first moment of a boot without it.
        uncertainty_s: of the length, at 95 %.
        beside: units that the boot did not wait for, in parallel to the parts; no share of the length.
    """

    name: str
    section: str
    start_s: float
    length_s: float
    uncertainty_s: float
    parts: tuple[BootNode, ...] = ()
    beside: tuple[BootNode, ...] = ()

    @property
    def placed(self) -> bool:
        """True if it is one time; sums have no place."""
        return bool(self.section) and self.name not in {BETWEEN, SHORT}

    def all(self, outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], BootNode]]:
        """This part, all inside it and those beside them, in their order, with the names from the whole to it."""
        path = (*outer, self.name)
        yield path, self
        for part in (*self.parts, *self.beside):
            yield from part.all(path)


@frozen
class ClockZero:
    """Time 0 of one of the board's clocks on the host's clock.

    Attributes:
        at_s: as `BootNode.start_s`.
        uncertainty_s: of its distance to the nearest of the host's moments; None: unknown.
        by: how the clocks are related.
    """

    clock: str
    at_s: float
    uncertainty_s: float | None
    by: str


@frozen
class BootAxis:
    """A measured boot on its own time line.

    Attributes:
        at_s: moment -> its time since power on.
        bound_s: its ±.
        own: moments of the user.
        prompt_s: the prompt's time.
        kernel_s, kernel_bound_s: the kernel's time 0; None: its lines do not tell.
    """

    at_s: Mapping[str, float]
    bound_s: Mapping[str, float]
    own: Mapping[str, float]
    prompt_s: float
    kernel_s: float | None
    kernel_bound_s: float


def axis(attempt: Attempt) -> BootAxis | None:
    """The time line of a good boot; None: its moments are not those of its numbers."""
    headline = next((sample.value for sample in attempt.samples if sample.metric in HEADLINE_NAMES), None)
    whole = next((sample.value for sample in attempt.samples if sample.metric == BOOT_POWER_ON.name), headline)
    if headline is None or whole is None:
        return None
    ends = (
        number
        for number, end in enumerate(attempt.moments)
        for start in attempt.moments[:number]
        if abs((end.t_ns - start.t_ns) / 1e9 - headline) < _SAME_S
    )
    if (number := next(ends, None)) is None:
        return None
    zero_ns = attempt.moments[number].t_ns - round(whole * 1e9)
    firsts: dict[str, Moment] = {}
    for moment in attempt.moments[: number + 1]:
        firsts.setdefault(moment.name, moment)
    fit = attempt.details.get("printk_fit")
    fitted = fit if isinstance(fit, Mapping) else {}
    return BootAxis(
        {name: (moment.t_ns - zero_ns) / 1e9 for name, moment in firsts.items()},
        {name: moment.uncertainty_ns / 1e9 for name, moment in firsts.items()},
        {moment.name: (moment.t_ns - zero_ns) / 1e9 for moment in attempt.moments[number + 1 :]},
        whole,
        (fitted["offset_ns"] - zero_ns) / 1e9 if "offset_ns" in fitted else None,
        (fitted.get("late_ns", 0) + fitted.get("drift_ns", 0)) / 1e9,
    )


def mean_of(documents: Iterable[Mapping[str, Any]], name: str) -> float | None:
    values = [float(document[name]) for document in documents if isinstance(document.get(name), int | float)]
    return statistics.fmean(values) if values else None


@frozen
class BootTree:
    """The tree of a medium's boots.

    Attributes:
        boots: the measured ones.
        parts: of the diagnostic ones.
        documents: of them.
    """

    whole: Overview
    medium: str
    boots: Sequence[BootAxis]
    parts: Sequence[PartTime]
    documents: Sequence[Mapping[str, Any]]

    def _at(self, name: str) -> float | None:
        """The mean time of a moment that all boots have."""
        if not self.boots or not all(name in boot.at_s for boot in self.boots):
            return None
        return statistics.fmean(boot.at_s[name] for boot in self.boots)

    def _start(self) -> str:
        """The moment of the kernel's start; "": no boot has one."""
        return next((name for name in KERNEL_STARTS if self._at(name) is not None), "")

    def _of(self, section: str) -> list[PartTime]:
        return [part for part in self.parts if part.section == section]

    def kernel_zero(self) -> ClockZero | None:
        """The kernel's time 0 in the measured boots, by its lines."""
        start = self._start()
        behind = [boot.kernel_s - boot.at_s[start] for boot in self.boots if boot.kernel_s is not None and start]
        if not behind:
            return None
        bound_s = uncertainty.of_mean(behind, [boot.kernel_bound_s + boot.bound_s[start] for boot in self.boots])
        at_s = statistics.fmean(boot.at_s[start] for boot in self.boots) + statistics.fmean(behind)
        return ClockZero("kernel (printk)", at_s, bound_s, "its lines and the host's stamps of them")

    def uboot_zero(self) -> ClockZero | None:
        """Time 0 of U-Boot's counter."""
        prompt_s = self._at(_AUTOBOOT)
        mark = next((part for part in self._of(BOOTSTAGE) if part.name == _MAIN_LOOP), None)
        if prompt_s is None or mark is None:
            return None
        bound_s = uncertainty.combine((max(boot.bound_s[_AUTOBOOT] for boot in self.boots), mark.uncertainty_s))
        by = f"its mark {_MAIN_LOOP} and the text of the autoboot, which follows it"
        return ClockZero("U-Boot (bootstage)", prompt_s - mark.start_s - mark.length_s, bound_s, by)

    def systemd_zero(self) -> ClockZero | None:
        """The start of systemd, from which its units count."""
        init_s = self._at("init")
        if init_s is None or not self._of(UNITS):
            return None
        began, wrote = mean_of(self.documents, "init_s"), mean_of(self.documents, "systemd_s")
        by = "the kernel's start of init"
        if began is None or wrote is None:
            return ClockZero("systemd (monotonic)", init_s, None, by)
        half_s = max(0.0, wrote - began) / 2
        return ClockZero("systemd (monotonic)", init_s + half_s, half_s, f"{by} and systemd's first line in its log")

    def clocks(self) -> tuple[ClockZero, ...]:
        """The clocks that are related to the host's."""
        zeros = (self.uboot_zero(), self.kernel_zero(), self.systemd_zero())
        return tuple(zero for zero in zeros if zero is not None)

    def problems(self) -> list[str]:
        """Parts that have no place in the tree, and stages that are shorter than their parts; one sentence each."""
        problems = []
        if self.boots and self._of(INITCALLS) and not self._start():
            problems.append(
                "the kernel's parts have no place in the tree: the measured boots have no start of the kernel"
            )
        if self.boots and self._of(BOOTSTAGE) and self.uboot_zero() is None:
            problems.append(
                f"U-Boot's parts have no place in the tree: it needs its mark {_MAIN_LOOP} and the autoboot's text"
            )
        for node in self._inner():
            took_s = sum(part.length_s for part in node.parts)
            bound_s = uncertainty.combine((node.uncertainty_s, *(part.uncertainty_s for part in node.parts)))
            if took_s > node.length_s + bound_s:
                problems.append(
                    f"the parts of {node.name!r} took {took_s * 1e3:.1f} ms in the diagnostic boots, the whole "
                    f"{node.length_s * 1e3:.1f} ms in the measured ones: they are drawn shorter"
                )
        return problems

    def root(self) -> BootNode | None:
        """The whole boot; None: no boot was measured."""
        if not self.boots:
            return None
        ends = [boot.prompt_s for boot in self.boots]
        parts = [_fill(node) for node in self._inner()]
        end_s = statistics.fmean(ends)
        own = {name: at_s for boot in self.boots for name, at_s in boot.own.items()}
        for name in sorted(own, key=own.__getitem__):
            values = [boot.own[name] for boot in self.boots if name in boot.own]
            at_s, bound_s = statistics.fmean(values), uncertainty.of_mean(values, [0.0])
            from_s = min(at_s, end_s)  # one from before the prompt is a mark
            parts.append(BootNode(f"moment {name}", STAGES, from_s, at_s - from_s, bound_s))
            end_s = max(at_s, end_s)
        bound_s = uncertainty.of_mean(ends, [max(boot.bound_s.values(), default=0.0) for boot in self.boots])
        parts.sort(key=lambda part: part.start_s)
        return _fill(BootNode(_WHOLE, STAGES, 0.0, end_s, bound_s, tuple(parts)))

    def _inner(self) -> list[BootNode]:
        """The stages, with their parts as long as they were; the kernel's are one."""
        start, init_s = self._start(), self._at("init")
        from_s = self._at(start) if start else None
        stages = [
            BootNode(stage.name, STAGES, stage.start_s, stage.summary.mean, stage.summary.uncertainty)
            for stage in self.whole.stages.get(self.medium, ())
        ]
        if from_s is None or not self._of(INITCALLS):
            return [self._with_uboot(node) for node in stages]
        before = [self._with_uboot(node) for node in stages if node.start_s < from_s - _SAME_S]
        if init_s is None:
            both = self._node(_KERNEL_AND_USER, start, "")
            return [*before, evolve(self._user(both), parts=(*self._kernel(both), *self._user(both).parts))]
        kernel, user = self._node(_KERNEL, start, "init"), self._node("User space", "init", "")
        return [*before, evolve(kernel, parts=self._kernel(kernel)), self._user(user)]

    def _node(self, name: str, start: str, end: str) -> BootNode:
        """The part between two moments; "": the prompt."""
        lengths = [(boot.at_s[end] if end else boot.prompt_s) - boot.at_s[start] for boot in self.boots]
        bounds_s = [max(boot.bound_s[start], boot.bound_s.get(end, 0.0)) for boot in self.boots]
        at_s = statistics.fmean(boot.at_s[start] for boot in self.boots)
        return BootNode(name, STAGES, at_s, statistics.fmean(lengths), uncertainty.of_mean(lengths, bounds_s))

    def _with_uboot(self, stage: BootNode) -> BootNode:
        """A stage with the marks of U-Boot in it."""
        zero = self.uboot_zero()
        if zero is None:
            return stage
        marks = [
            BootNode(part.name, BOOTSTAGE, zero.at_s + part.start_s, part.length_s, part.uncertainty_s)
            for part in self._of(BOOTSTAGE)
            if part.name != SHORT and not part.name.endswith(ACCUMULATED)
        ]
        return evolve(stage, parts=tuple(_clip(marks, stage.start_s, stage.start_s + stage.length_s)))

    def _kernel(self, whole: BootNode) -> tuple[BootNode, ...]:
        """The time to the kernel's clock, its initcalls and gaps."""
        zero = self.kernel_zero()
        gap_s = 0.0 if zero is None else max(0.0, zero.at_s - whole.start_s)
        first = (
            [] if zero is None else [BootNode(_TO_CLOCK, INITCALLS, whole.start_s, gap_s, zero.uncertainty_s or 0.0)]
        )
        parts = (*first, *_nest_initcalls(self._of(INITCALLS), whole.start_s + gap_s))
        saved = self._saved_output(whole.length_s - sum(part.length_s for part in parts))
        return parts if saved is None else (*parts, saved)

    def _saved_output(self, rest_s: float) -> BootNode | None:
        """The console output that the diagnostic boots save; at most the rest.

        By so much init starts later where the kernel's lines go over the console. None: the kernel's times do not tell.
        """
        zero, init_s, diagnosed_s = self.kernel_zero(), self._at("init"), mean_of(self.documents, "init_s")
        if zero is None or init_s is None or diagnosed_s is None:
            return None
        length_s = min(init_s - zero.at_s - diagnosed_s, rest_s)
        bound_s = uncertainty.combine((zero.uncertainty_s or 0.0, max(boot.bound_s["init"] for boot in self.boots)))
        return BootNode(SAVED, "", zero.at_s, length_s, bound_s) if length_s > bound_s else None

    def _user(self, whole: BootNode) -> BootNode:
        """The whole with its units, modules and the getty one after the other.

        Units that the boot did not wait for are beside them.
        """
        systemd, kernel, getty_s = self.systemd_zero(), self.kernel_zero(), mean_of(self.documents, "getty_s")
        end_s = whole.start_s + whole.length_s
        units = []
        if systemd is not None:
            units = [
                BootNode(part.name, UNITS, systemd.at_s + part.start_s, part.length_s, part.uncertainty_s)
                for part in self._of(UNITS)
                if part.start_s > 0
            ]
        chain = {
            name for document in self.documents for name in document.get("chain") or [unit.name for unit in units]
        }
        parts = [unit for unit in units if unit.name in chain]
        if parts and getty_s is not None:  # a getty starts after its units; those are of other boots
            late_s = max(unit.start_s + unit.length_s for unit in parts) - (end_s - getty_s)
            if 0 < late_s <= _OTHER_BOOTS * whole.length_s:
                units = [evolve(unit, start_s=unit.start_s - late_s) for unit in units]
                parts = [unit for unit in units if unit.name in chain]
        beside = [
            evolve(unit, name=f"{unit.name}{IN_PARALLEL}")
            for unit in units
            if unit.name not in chain and whole.start_s <= unit.start_s < end_s
        ]
        if kernel is not None:
            shift_s = kernel.at_s
            began, init_s = mean_of(self.documents, "init_s"), self._at("init")
            if began is not None and init_s is not None:
                shift_s = init_s - began  # from init on, the diagnostic boots are quicker by the console's lines
            parts += [
                BootNode(part.name, MODULES, shift_s + part.start_s, part.length_s, part.uncertainty_s)
                for part in self._of(MODULES)
                if part.name != SHORT
            ]
        if getty_s is not None:
            values = [float(document["getty_s"]) for document in self.documents if "getty_s" in document]
            parts.append(BootNode(_GETTY, UNITS, end_s - getty_s, getty_s, uncertainty.of_mean(values, [0.0])))
        return evolve(whole, parts=tuple(_clip(parts, whole.start_s, end_s)), beside=tuple(beside))


def _clip(nodes: Iterable[BootNode], start_s: float, end_s: float) -> Iterator[BootNode]:
    """Parts within a time, one after the other: the one that began first has what they share."""
    at_s = start_s
    for node in sorted(nodes, key=lambda node: node.start_s):
        from_s, to_s = max(at_s, node.start_s), min(end_s, node.start_s + node.length_s)
        if to_s > from_s:
            yield evolve(node, start_s=from_s, length_s=to_s - from_s)
            at_s = to_s


def _nest_initcalls(parts: Sequence[PartTime], zero_s: float) -> list[BootNode]:
    """Initcalls with the probes inside them; each is as long as its own time and that of its parts."""
    groups: list[tuple[PartTime, list[PartTime]]] = []
    for part in sorted(parts, key=lambda part: (part.start_s, -part.length_s)):
        sums = {SHORT, BETWEEN}
        outer = next((last for last, _ in reversed(groups) if last.name not in sums), None)
        if (
            part.name not in sums
            and outer is not None
            and part.start_s + part.length_s <= outer.start_s + outer.length_s + _SAME_S
        ):
            next(inner for last, inner in reversed(groups) if last is outer).append(part)
        else:
            groups.append((part, []))
    nodes = []
    for part, inner in groups:
        probes = tuple(BootNode(e.name, e.section, zero_s + e.start_s, e.mean_s, e.uncertainty_s) for e in inner)
        bound_s = uncertainty.combine((part.uncertainty_s, *(probe.uncertainty_s for probe in probes)))
        length_s = part.mean_s + sum(probe.length_s for probe in probes)
        nodes.append(BootNode(part.name, part.section, zero_s + part.start_s, length_s, bound_s, probes))
    return nodes


def _fill(node: BootNode) -> BootNode:
    """A part whose parts are as long as it is, with one for what nothing explains."""
    took_s = sum(part.length_s for part in node.parts)
    if not node.parts:
        return node
    if took_s > node.length_s:
        return evolve(node, parts=tuple(_scale(part, node.length_s / took_s) for part in node.parts))
    bound_s = uncertainty.combine((node.uncertainty_s, *(part.uncertainty_s for part in node.parts)))
    rest = BootNode(UNEXPLAINED, "", node.start_s, node.length_s - took_s, bound_s)
    return evolve(node, parts=(*node.parts, rest)) if rest.length_s > _SAME_S else node


def _scale(node: BootNode, by: float) -> BootNode:
    return evolve(node, length_s=node.length_s * by, parts=tuple(_scale(part, by) for part in node.parts))


def shorten(node: BootNode, most: int | None) -> BootNode:
    """A part with its longest parts and those beside it; the others are one."""
    parts = [shorten(part, most) for part in node.parts]
    if most is not None and node.beside:
        longest = sorted(node.beside, key=_length)[-most:]
        node = evolve(node, beside=tuple(part for part in node.beside if part in longest))
    if most is None or len(parts) <= most:
        return evolve(node, parts=tuple(parts))
    long_parts = [part for part in sorted(parts, key=_length)[1 - most :] if part.name != UNEXPLAINED]
    last = [part for part in parts if part.name == UNEXPLAINED]
    others = [part for part in parts if part not in long_parts and part not in last]
    rest = BootNode(
        f"({len(others)} shorter parts)",
        "",
        others[0].start_s,
        sum(part.length_s for part in others),
        uncertainty.combine(part.uncertainty_s for part in others),
    )
    return evolve(node, parts=(*(part for part in parts if part in long_parts), rest, *last))


def _length(node: BootNode) -> float:
    return node.length_s
