"""Measure the figures of docs/performance.md anew: `./run figures`, or some of them, `./run figures stamps overhead`.

A block of the page has a command and its output. The command is run from the root of the tree, and each table and
sentence that it prints takes the place of the former ones, below the date, the version, the machine and its load. The
end of a block has a digest of its text, so that no figure is changed by hand (tests/unit/test_figures.py).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import version
from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[1]
MISSED: Final = 3  # exit code of a program of bench: an aim is missed
PAGE: Final = ROOT / "docs" / "performance.md"
BLOCK: Final = re.compile(
    r"<!-- figures -->\n\n    (?P<command>[^\n]+)\n\n(?P<body>.*?)\n<!-- end of figures (?P<digest>\w*) -->\n",
    re.DOTALL,
)
_LOAD: Final = re.compile(r"^load [\d.]+ on \d+ cores$", re.MULTILINE)
_PROCESSOR: Final = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


@frozen
class Block:
    """The figures of one command.

    Attributes:
        command: a line of a shell.
        body: date, tables and sentences, as Markdown.
        digest: of body, as the page has it; empty: it was never measured.
    """

    command: str
    body: str
    digest: str

    @property
    def is_measured(self) -> bool:
        """True: the text was not changed since its digest was made."""
        return self.digest == digest(self.body)


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in their order."""
    for match in BLOCK.finditer(text):
        yield Block(match["command"], match["body"], match["digest"])


def digest(body: str) -> str:
    """A digest of a block's text, the first 12 digits of SHA-256."""
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def measure(command: str) -> str:
    """Run a block's command; its new text.

    Raises:
        SystemExit: the command failed.
    """
    sys.stderr.write(f"==> {command}\n")
    load_before = os.getloadavg()[0]
    shown = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if shown.returncode not in {0, MISSED}:
        sys.exit(f"{command}: it ended with {shown.returncode}; the page keeps its former figures")
    missed = "\n\nAn aim is missed." if shown.returncode == MISSED else ""
    return f"{_heading(load_before)}\n\n{as_markdown(shown.stdout)}{missed}"


def as_markdown(output: str) -> str:
    """The output as tables and paragraphs, a line each."""
    lines = _LOAD.sub("", output).splitlines()
    paragraphs: list[str] = []
    for is_table, group in itertools.groupby(lines, key=lambda line: line.startswith("|")):
        text = "\n".join(group)
        paragraphs += [text] if is_table else [line.strip() for line in text.splitlines() if line.strip()]
    return "\n\n".join(paragraphs)


def _heading(load_before: float) -> str:
    information = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = _PROCESSOR.findall(information)
    machine = f"{psutil.cpu_count()} × {names[0]}" if names else f"{psutil.cpu_count()} cores"
    return (
        f"Measured on {dt.datetime.now(dt.UTC):%-d %B %Y} by boardlab {version.version()} on {machine}, "
        f"at load {load_before:.1f} before it."
    )


def renew(text: str, words: list[str]) -> Iterator[str]:
    """The page after each command that has one of the words, or after each command."""
    for block in blocks(text):
        if words and not any(word in block.command for word in words):
            continue
        body = measure(block.command)
        command = f"<!-- figures -->\n\n    {block.command}\n\n"
        _old, _command, rest = text.partition(command)
        tail = rest.partition("\n<!-- end of figures ")[2].partition(" -->\n")[2]
        text = f"{_old}{command}{body}\n<!-- end of figures {digest(body)} -->\n{tail}"
        yield text


def main() -> None:
    """Measure one command after the other; the page is written after each."""
    text = PAGE.read_text(encoding="utf-8")
    words = sys.argv[1:]
    for word in words:
        if not any(word in block.command for block in blocks(text)):
            commands = "\n".join(f"    {block.command}" for block in blocks(text))
            sys.exit(f"{word}: no command of docs/performance.md has it. They are:\n{commands}")
    for page in renew(text, words):
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
