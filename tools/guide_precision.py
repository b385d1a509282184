"""Precision of the rules of `lab guide check` that rest on a likelihood: `python tools/guide_precision.py` writes its table.

For each rule as many generated guides with its fault as sound ones that look similar (tests/support/guide_cases.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import guide_cases  # noqa: E402 - from the folder above

PAGE = ROOT / "docs" / "guide-rules.md"
COUNT = 60
BEGIN, END = "<!-- tools/guide_precision.py -->\n", "<!-- end -->\n"


def main() -> int:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
    return 0


def table() -> str:
    """The rules with their precision."""
    lines = ["", "| Rule | Precision | Beyond notes |", "|---|---|---|"]
    for rule in guide_cases.CASES:
        found = guide_cases.score(rule, COUNT)
        sure = found.sure_right + found.sure_wrong
        beyond = f"{100 * found.sure_right / sure:.0f} %" if sure else "-"
        lines.append(f"| [{rule}](#{rule}) | {100 * found.right / (found.right + found.wrong):.0f} % | {beyond} |")
    return "\n".join([*lines, "", ""])


if __name__ == "__main__":
    sys.exit(main())
