"""The kernel's initcalls and probes, from its log with `initcall_debug`.

Form: Linux init/main.c (`trace_initcall_start_cb`, `trace_initcall_finish_cb`) and drivers/base/dd.c
(`really_probe_debug`). The length of an initcall is the difference of its two stamps: its own microseconds come in
steps of a jiffy until the clock source is switched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from lab.benchmarks.diagnosis.parts import INITCALLS, MODULES, BootPart
from lab.errors import TestTransientError

# The lines are kept in memory; printing them would take seconds.
ARGUMENTS: Final = "quiet initcall_debug log_buf_len=1M printk.devkmsg=on"
_STEP_S: Final = 0.01  # of early times: a jiffy, at 100 Hz at most
BEFORE: Final = "(before the first initcall)"
BETWEEN: Final = "(between initcalls)"

# With a caller (CONFIG_PRINTK_CALLER), or a processor (Amlogic's kernels).
_STAMP: Final = r"^(?:<\d+>)?\[ *(?P<t>\d+\.\d+)(?:@\d+)?\](?:\[ *[CT]\d+\])? +"
_WHAT: Final = r"(?P<name>[\w.$]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(?P<module>[^\]]+)\])?"
_CALLING: Final = re.compile(_STAMP + r"calling +" + _WHAT + r" @ \d+")
_RETURNED: Final = re.compile(_STAMP + r"initcall " + _WHAT + r" returned -?\d+ ")
_PROBE: Final = re.compile(_STAMP + r"probe of (?P<name>\S+) returned -?\d+ after (?P<usecs>\d+) usecs")
_FIRST: Final = re.compile(
    _STAMP + r"Booting Linux on physical CPU|" + _STAMP.replace("<t>", "<u>") + r"Linux version "
)
_NAMELESS: Final = re.compile(_STAMP + r"calling +(?:0x)?[0-9a-f]+ @ \d+")  # %pS without CONFIG_KALLSYMS
_INIT: Final = re.compile(_STAMP + r"Run \S+ as init process")
# Linux before 4.17 says no more when it starts init (init/main.c kernel_init).
_FREED: Final = re.compile(_STAMP + r"Freeing unused kernel (?:image )?(?:\(initmem\) )?memory: ")
_SYSTEMD: Final = re.compile(_STAMP + r"systemd\[1\]: ")


@frozen
class _Span:
    name: str
    start_s: float
    end_s: float
    module: bool


def kernel_parts(lines: Sequence[str]) -> list[BootPart]:
    """The parts of a kernel's start, and those of modules after it.

    Args:
        lines: of dmesg.

    Raises:
        TestTransientError: the log has no initcalls, lost its beginning, or does not reach the start of init.
    """
    if lines and not any(re.match(_STAMP, line) for line in lines):
        raise TestTransientError(
            "the lines of the kernel's log have no times: switch them on (CONFIG_PRINTK_TIME, or printk.time=1)",
            failure="unreadable_output",
        )
    if not any(_FIRST.match(line) for line in lines):
        raise TestTransientError(
            "the kernel's log has lost its beginning: its buffer was too small (log_buf_len=1M was asked for)",
            failure="unreadable_output",
        )
    spans, init_s = list(_spans(lines)), _init(lines)
    if not spans and any(_NAMELESS.match(line) for line in lines):
        raise TestTransientError(
            "the kernel names its initcalls by their addresses, which differ in each build: build it with "
            "CONFIG_KALLSYMS",
            failure="unreadable_output",
        )
    if not spans:
        raise TestTransientError(
            "the kernel's log has no initcalls: was `initcall_debug` on its command line?", failure="unreadable_output"
        )
    if init_s is None:
        raise TestTransientError(
            "the kernel's log has no start of init: neither `Run … as init process`, nor `Freeing unused kernel "
            "memory`, nor a line of systemd",
            failure="unreadable_output",
        )
    parts = [
        BootPart(MODULES if span.module or span.start_s >= init_s else INITCALLS, span.name, span.start_s, length, own)
        for span, length, own in _own_times(spans)
    ]
    outer = [span for span in _outermost(spans) if span.start_s < init_s]
    first_s = min((span.start_s for span in outer), default=init_s)
    covered_s = sum(min(span.end_s, init_s) - span.start_s for span in outer)
    between_s = max(0.0, init_s - first_s - covered_s)
    return [
        BootPart(INITCALLS, BEFORE, 0.0, first_s, first_s),
        *parts,
        BootPart(INITCALLS, BETWEEN, first_s, between_s, between_s),
    ]


def user_space_start(lines: Sequence[str]) -> tuple[float | None, float | None]:
    """Kernel times of init's start and of systemd's first line.

    None: not in the log.
    """
    return _init(lines), _first(_SYSTEMD, lines)


def _init(lines: Sequence[str]) -> float | None:
    return next((at_s for pattern in (_INIT, _FREED, _SYSTEMD) if (at_s := _first(pattern, lines)) is not None), None)


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> float | None:
    return next((float(match["t"]) for line in lines if (match := pattern.match(line))), None)


def _spans(lines: Sequence[str]) -> Iterator[_Span]:
    open_at: dict[tuple[str, str], float] = {}
    for line in lines:
        if match := _CALLING.match(line):
            open_at[match["name"], match["module"] or ""] = float(match["t"])
        elif match := _RETURNED.match(line):
            module = match["module"] or ""
            start_s = open_at.pop((match["name"], module), None)
            if start_s is not None:
                yield _Span(
                    f"{match['name']} [{module}]" if module else match["name"],
                    start_s,
                    float(match["t"]),
                    bool(module),
                )
        elif match := _PROBE.match(line):
            end_s = float(match["t"])
            start_s = max(0.0, end_s - int(match["usecs"]) / 1e6)
            begun_s = max(open_at.values(), default=start_s)
            if start_s < begun_s <= start_s + _STEP_S:  # by the step of its time; it was logged inside that initcall
                start_s = begun_s
            yield _Span(f"probe {match['name']}", start_s, end_s, module=False)


def _own_times(spans: Sequence[_Span]) -> Iterator[tuple[_Span, float, float]]:
    """Each span with its length, and its time without inner ones."""
    own = {number: span.end_s - span.start_s for number, span in enumerate(spans)}
    stack: list[int] = []
    for number in sorted(own, key=lambda each: (spans[each].start_s, -spans[each].end_s)):
        while stack and spans[stack[-1]].end_s < spans[number].end_s:
            stack.pop()
        if stack and spans[stack[-1]].end_s > spans[number].start_s:
            own[stack[-1]] -= spans[number].end_s - spans[number].start_s
        stack.append(number)
    for number, span in enumerate(spans):
        yield span, span.end_s - span.start_s, max(0.0, own[number])


def _outermost(spans: Sequence[_Span]) -> list[_Span]:
    """The union of all spans, in order."""
    union: list[_Span] = []
    for span in sorted(spans, key=lambda each: each.start_s):
        if union and span.start_s < union[-1].end_s:
            last = union[-1]
            union[-1] = _Span(last.name, last.start_s, max(last.end_s, span.end_s), last.module)
        else:
            union.append(span)
    return union
