"""The shell lines of the documents, and which of them this host can run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_COMMAND: Final = re.compile(r"(?:lab|pytest|export|cd|cp|source|curl|python3?|uv|env|\./run|apt-get|systemctl)\b")
_COMMENT: Final = re.compile(r"\s+# .*$")
# Why a line is not run by a test; the first that fits counts.
REASONS: Final = {
    r"\b(?!PMIC)[A-Z]{3,}\b|\bR\b|OLD…|\.\.\.|\[--|/tmp/case": "it is a form: the reader fills it in",
    r"^\./run |\buv run|^python tools|^env -C|^BOARDLAB_|virtual\.yaml|virtual (up|down) # getting": "it takes a checkout, and minutes to hours",
    r"/etc/|/srv/|/var/|/opt/|systemctl|apt-get|runuser|udevadm|^install |^rm |^\$EDITOR|amtool|--files / |/home/": (
        "it takes root, or another user's home"
    ),
    r"/dev/tty|\bttyUSB|10\.0\.0\.|lab-1|192\.0\.2\.|\bexample\.(?:org|com)|s3://|sigrok|labgrid-client|results upload": (
        "it takes hardware or a host of the reader's"
    ),
    r"deploy-ti|\bam\d+\w*-\d\d\.\d\d\.rst|am437x\.rst|am62ax-09|releases/11|11\.0\d\.yaml|0412\.yaml|--from-nothing|fio\*": (
        "it takes a release or a guide of the vendor's"
    ),
    r"11\.00-am62x|boards\.csv|farm qualify|console truth|results prune|judge sensitivity|example\.yaml|guide write": "it takes files of the reader's lab",
    r"python3 -m venv|pip install|/path/to|^source ": "it installs",
    r"--slots 'setenv bootpart|ab --same --env am62x|bisect|--network|_sk-17/|uboot-tests|uboot-boards|virtual images|am62xlp|power\.trace|"
    r"test/py|/tmp/bpim2u|^lab init|provision\.|\bmonitoring\b": "another test runs it",
    r"^pytest --lg-env \S+( --lab-(release \S+|judge))* # |^pytest .*tests_perf( |$)|lab run --(sections|suite boot,)|low_power\.py|"
    r"--destructive|^lab run --type|sim-am62x\.yaml --lab-cycles": (
        "it measures for minutes; the tests of sections and low power run it"
    ),
    r"console (attach|wait|tail|serve)|virtual console|farm export|rails serve|^lab web # |^curl|web user (add|remove) lena|"
    r"--resume j12|--continue|jobs cancel": "it takes a person, a server or a run that ended early",
}


@frozen
class DocLine:
    """A shell line of a page.

    Attributes:
        page: below docs.
        reason: why no test runs it; empty: one does.
    """

    page: str
    number: int
    text: str

    @property
    def reason(self) -> str:
        text = f"{self.text} # {self.page}"
        return next((why for pattern, why in REASONS.items() if re.search(pattern, text)), "")


def lines(page: Path) -> Iterator[DocLine]:
    """The commands of a page's indented blocks, without their comments and prompts' output."""
    inside = fenced = False
    texts = page.read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(texts, start=1):
        if text.lstrip().startswith("```"):
            fenced = not fenced
            continue
        before = texts[number - 2].strip() if number > 1 else ""
        inside = not fenced and text.startswith("    ") and (inside or not before or before.startswith("```"))
        command = _COMMENT.sub("", text.strip())
        if inside and _COMMAND.match(command) and not command.endswith("\\"):
            yield DocLine(str(page.relative_to(DOCS)), number, command)


def all_lines() -> list[DocLine]:
    """The shell lines of all pages but the start pages, which have a test of their own."""
    pages = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "start")
    return [line for page in pages for line in lines(page)]
