"""Findings of the rules in a guide."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from attrs import frozen

from lab import extensions
from lab.guide.check import rules
from lab.guide.measurements import MeasuredGuide
from lab.guide.model import Cell
from lab.guide.rulebook import Remark, Rule, Severity


@frozen(kw_only=True)
class RuleFinding(Remark):
    """A remark with its rule and file; the severity and the line are known."""

    rule: Rule
    file: str
    severity: Severity

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell that the finding is about."""
        return tuple(r.cell for r in ((self.reading,) if self.reading else ()) + self.also)


@functools.cache
def load_rules() -> tuple[Rule, ...]:
    """Every `Rule` of lab/guide/check/rules and of installed packages, by id.

    Raises:
        ConfigurationError: a package's is none, or has the id of another one.
    """
    rule_of: dict[str, Rule] = {}
    for name in (module.name for module in pkgutil.iter_modules(rules.__path__)):
        members = vars(importlib.import_module(f"{rules.__name__}.{name}")).values()
        rule_of |= {member.id: member for member in members if isinstance(member, Rule)}
    for name, rule in extensions.load(extensions.GUIDE_RULES).items():
        if not isinstance(rule, Rule) or rule.id in rule_of:
            raise extensions.wrong(extensions.GUIDE_RULES, name, "a Rule with an id of its own", rule)
        rule_of[rule.id] = rule
    return tuple(rule_of[key] for key in sorted(rule_of))


def run_rules(sheet: MeasuredGuide, older: MeasuredGuide | None = None) -> list[RuleFinding]:
    """Everything that the rules find in a guide, by line."""
    findings = [
        RuleFinding(
            rule=rule,
            severity=remark.severity or rule.severity,
            file=sheet.guide.path,
            line=remark.line or (remark.reading.cell.line if remark.reading else 0),
            message=remark.message,
            reading=remark.reading,
            also=remark.also,
            corrected=remark.corrected,
            uncertainty=remark.uncertainty,
            resolution=remark.resolution,
        )
        for rule in load_rules()
        for remark in rule.check(sheet, older)
    ]
    return sorted(findings, key=lambda finding: (finding.line, finding.rule.id))
