"""Facts of a text for a person: names, numbers, places, the remedy's command; its other words may change."""

from __future__ import annotations


def missing_facts(text: str, *facts: str) -> list[str]:
    """The facts that a text lacks in this order; empty: it has all."""
    missing, start = [], 0
    for fact in facts:
        position = text.find(fact, start)
        if position < 0:
            missing.append(fact)
        else:
            start = position + len(fact)
    return missing


def was_provisioned(text: str, medium: str, release: str) -> bool:
    """True if `lab provision` says that a medium has a release.

    Its line says that the release was read back, booted and compared.
    """
    facts = (f"{medium}: {release}", "read back", "booted", "compared")
    return any(not missing_facts(line, *facts) for line in text.splitlines())
