"""How often the newer rules of `lab guide check` are right: `python tools/guide_precision.py` writes the table of the rules' page.

For each rule so many built guides with its fault and as many sound ones that look like it (tests/support/guide_cases.py).
Its findings in the five guides are counted beside that and are no part of the share: docs/guide-findings.md judges them one by one,
and the rules were made on them.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import (  # noqa: E402 - from the folder above
    guide_cases,
    guide_family,
)

from lab.guide import reading, rulebook, sheet  # noqa: E402
from lab.guide.rulebook import Severity  # noqa: E402

PAGE = ROOT / "docs" / "guide-rules" / "index.md"
COUNT = 60
BEGIN, END = "<!-- tools/guide_precision.py -->\n", "<!-- end -->\n"


def main() -> int:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
    return 0


def table() -> str:
    """The rules with their counts and precision."""
    severities = {rule.id: rule.severity for rule in rulebook.load()}
    real = _of_the_five()
    lines = [
        "",
        "| Rule | Severity | Findings in the five guides | Planted, found | Sound | Right | Wrong | Precision | Beyond notes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rule in guide_cases.CASES:
        found = guide_cases.score(rule, COUNT)
        sure = found.sure_right + found.sure_wrong
        beyond = f"{100 * found.sure_right / sure:.0f} %" if sure else "-"
        lines.append(
            f"| [{rule}]({rule}.md) | {severities[rule]} | {real[rule]} | {found.planted}, {found.found} | {found.sound} | "
            f"{found.right} | {found.wrong} | {100 * found.right / (found.right + found.wrong):.0f} % | {beyond} |"
        )
    return "\n".join([*lines, "", ""])


def precision_of(text: str) -> dict[str, int]:
    """Rule -> the percentage in a page's table."""
    return {
        rule: int(share)
        for rule, share in re.findall(r"^\| \[([\w-]+)\][^\n]*\| (\d+) % \| [^|]* \|$", text, re.MULTILINE)
    }


def _of_the_five() -> Counter[str]:
    """Findings of each rule in the five guides, of the later AM62x against the older one too."""
    with tempfile.TemporaryDirectory() as folder:
        paths = guide_family.written(Path(folder))
        sheets = {name: sheet.of_guide(reading.read(path)) for name, path in paths.items()}
    found = [f for one in sheets.values() for f in rulebook.run(one)]
    older = rulebook.run(sheets["am62x-11.01.rst"], sheets["am62x-09.02.rst"])
    found += [f for f in older if f.rule.id in {"outlier-older", "carried-over", "clock-ratio"}]
    claims = [f for f in found if f.severity is not Severity.NOTE or f.rule.severity is Severity.NOTE]
    return Counter(f.rule.id for f in claims)


if __name__ == "__main__":
    sys.exit(main())
