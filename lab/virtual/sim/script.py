"""Texts of the boot, played within a stage's drawn duration.

They are templates of lines with the work before each.

A line of a template is `WEIGHT KIND TEXT`: the share of the stage's work before the line, `u` for firmware or a
process or `k` for the kernel's log, and the text. `@POINT` is a point at which faults take hold
(`lab.virtual.sim.faulthooks`). Templates are Jinja2's, filled with `Model.facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jinja2
from attrs import frozen

from lab.virtual.line import BITS_PER_BYTE
from lab.virtual.sim.program import NS_PER_S


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
