"""Texts of the boot, played within a stage's drawn duration.

They are templates of lines with the work before each.

A line of a template is `WEIGHT KIND TEXT`: the share of the stage's work before the line, `u` for firmware or a
process or `k` for the kernel's log, and the text. `@POINT` is a point at which faults take hold
(`lab.virtual.sim.faulthooks`). Templates are Jinja2's, filled with `Model.facts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate

import jinja2
from attrs import frozen

from lab.virtual.line import BITS_PER_BYTE
from lab.virtual.sim.computer import Computer, KernelLog
from lab.virtual.sim.program import NS_PER_S, Pause, Program


@frozen
class ScriptLine:
    """One line of a text.

    Attributes:
        weight: share of the stage's work before it.
        kernel: it goes through the kernel's log.
        point: faults take hold here; the line prints nothing.
    """

    weight: float
    text: str
    kernel: bool = False
    point: str = ""


def load(name: str, **facts: object) -> list[ScriptLine]:
    """The lines of a text, filled with facts."""
    return [_line(raw) for raw in _templates().get_template(f"{name}.txt").render(**facts).splitlines() if raw.strip()]


def printed_ns(lines: Sequence[ScriptLine], speed_bd: int, stamp_bytes: int = 15) -> int:
    """Time of lines on the UART, with stamps of kernel lines."""
    count = sum(len(line.text) + 2 + (stamp_bytes if line.kernel else 0) for line in lines if not line.point)
    return count * BITS_PER_BYTE * NS_PER_S // speed_bd


def play(
    computer: Computer,
    lines: Sequence[ScriptLine],
    total_ns: int,
    log: KernelLog | None = None,
    behind: Mapping[str, Program[None]] | None = None,
) -> Program[None]:
    """Print the lines, the last one after `total_ns`.

    The lines' own time on the UART is taken off; the rest is work, spread by weight. A stage that is planned shorter
    than its own printing takes as long as that. When something holds it up, all that follows comes later by as much.

    Args:
        behind: beginning of a line -> program behind it.
    """
    speed_bd = computer.machine.speed_bd[computer.console]
    work_ns = max(0, total_ns - printed_ns(lines, speed_bd)) * computer.time_scale
    weights = list(accumulate(line.weight for line in lines))
    whole = weights[-1] if lines and weights[-1] else 1.0
    start_ns, before_ns = computer.now_ns, 0
    for line, weight in zip(lines, weights, strict=True):
        due_ns = start_ns + before_ns + round(work_ns * weight / whole)
        if due_ns > computer.now_ns:
            yield from wait_until(computer, due_ns)
        else:
            start_ns += computer.now_ns - due_ns
        if line.point:
            yield from computer.at(line.point)
            continue
        before_ns += printed_ns([line], speed_bd)
        if line.kernel and log is not None:
            yield from log.printk(line.text)
        elif log is None:
            yield from computer.say(line.text + "\n")
        else:
            yield from computer.write(line.text.encode() + b"\n")
        for beginning, program in (behind or {}).items():
            if line.text.startswith(beginning):
                yield from program
    yield from wait_until(computer, start_ns + before_ns + round(work_ns))


def wait_until(computer: Computer, due_ns: int) -> Program[None]:
    """Do nothing until then; time_scale does not apply."""
    if due_ns > computer.now_ns:
        yield Pause(due_ns - computer.now_ns)


def _line(raw: str) -> ScriptLine:
    raw = raw.strip(" ") if raw.lstrip().startswith("@") else raw.lstrip(" ")
    if raw.startswith("@"):
        return ScriptLine(0.0, "", point=raw[1:])
    weight, _, rest = raw.partition(" ")
    kind, _, text = rest.partition(" ")
    return ScriptLine(float(weight), text, kernel=kind == "k")


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("lab.virtual.sim", "texts"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - console text, not HTML
    )
