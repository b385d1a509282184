"""Vocabulary of the rules on published numbers, for ours and other packages' rules."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable

from attrs import frozen

from lab.guide.catalogue import CellReading
from lab.guide.measurements import MeasuredGuide


class Severity(enum.StrEnum):
    """Certainty and weight of a finding."""

    ERROR = "error"  # the number is wrong, or stands for something else
    WARNING = "warning"  # the number is right but misleads: its label, unit or definition is wrong
    SUSPECT = "suspect"  # probably wrong; the message says why that is not sure
    NOTE = "note"  # far from what one expects; a fault or a property, which the guide alone cannot tell
    INFO = "info"  # a limit of the number that a reader should know


class Effect(enum.StrEnum):
    """Meaning of an error or suspicion in a comparison of releases.

    Without an effect the number is wrong by an unknown amount.
    """

    RECOVERED = "recovered"  # the corrected value replaces the printed one
    BROKEN = "broken"  # the run failed: there is nothing to compare
    INCOMPARABLE = "incomparable"  # the number is of something else than its row says
    HARMLESS = "harmless"  # the number is right, and what stands beside it is wrong


@frozen
class Remark:
    """A statement of a rule about a place.

    Attributes:
        reading: the cell; None for a table or a row as a whole.
        also: further cells that the same statement holds for.
        corrected: the right value, in the cell's unit, where it can be recovered.
        uncertainty: ± of the corrected value, in the cell's unit; None where it is exact to the printed digits.
        resolution: the smallest step of the method there, in the cell's unit.
        severity: where it differs from the rule's own.
    """

    message: str
    reading: CellReading | None = None
    line: int = 0
    also: tuple[CellReading, ...] = ()
    corrected: float | None = None
    uncertainty: float | None = None
    resolution: float | None = None
    severity: Severity | None = None


@frozen
class Rule:
    """A way in which a published number can be wrong.

    Attributes:
        id: also its heading in docs/guide-rules.md.
        title: what is wrong, in a few words.
        check: a pure function of a guide and, where given, an older one; its docstring explains the rule.
        effect: what an error of this rule means for a comparison.
        address: of the page of another package's rule.
    """

    id: str
    title: str
    severity: Severity
    check: Callable[[MeasuredGuide, MeasuredGuide | None], Iterable[Remark]]
    effect: Effect | None = None
    address: str = ""

    @property
    def page(self) -> str:
        """Its place in the documentation, from the repository's root; or the address of another package's."""
        return self.address or f"docs/guide-rules.md#{self.id}"

    @property
    def text(self) -> str:
        """Its explanation: the fault, the finding, the limits."""
        return inspect.cleandoc(self.check.__doc__ or "").partition("\n\n")[2]


def rule(
    name: str, title: str, severity: Severity, effect: Effect | None = None, address: str = ""
) -> Callable[[Callable[[MeasuredGuide, MeasuredGuide | None], Iterable[Remark]]], Rule]:
    """Make the check below a rule."""
    return lambda check: Rule(name, title, severity, check, effect, address)
