"""The rules of `lab guide check`, which mkdocs puts into docs/guide-rules.md: a table, then each with its docstring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lab.guide.check.findings import load_rules
from lab.guide.rulebook import Effect

_MARK: Final = "<!-- the rules -->"
_EFFECTS: Final = {
    Effect.RECOVERED: "the corrected value replaces the printed one",
    Effect.BROKEN: "the row is a broken run",
    Effect.INCOMPARABLE: "the row is not comparable",
    Effect.HARMLESS: "the number is compared",
}


def lines() -> Iterator[str]:
    """The table, then a section of each rule."""
    rules = load_rules()
    yield from ("| Rule | Severity | Fault |", "|---|---|---|")
    yield from (f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" for rule in rules)
    yield from ("", "## Each rule")
    for rule in rules:
        effect = f" In comparisons: {_EFFECTS[rule.effect]}." if rule.effect else ""
        yield from ("", f"### {rule.id}", "", f"{rule.title}. Severity: {rule.severity}.{effect}", "")
        yield re.sub(r"^(Finding|Limits):", r"**\1:**", rule.text, flags=re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the rules in place of their mark."""
    return markdown.replace(_MARK, "\n".join(lines())) if _MARK in markdown else markdown
