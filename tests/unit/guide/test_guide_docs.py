"""The pages on guides say what the commands print and what the rules do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import rule_sections
from test_guide_family import FINDINGS

from lab.cli import guide, main
from lab.cli import guide as guide_commands
from lab.guide import catalogue
from lab.guide.check.findings import load_rules
from lab.guide.model import CellKind
from lab.guide.rulebook import Rule
from lab.judge.compare import Verdict

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDES = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "guides").glob("*.md")))
SESSIONS = re.findall(r"^```console\n(.*?)^```$", GUIDES, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\$ lab (.*)$", GUIDES, re.MULTILINE)


def unnumbered(line: str) -> str:
    """A line of output without line numbers: those of the written guides differ from the originals'."""
    return re.sub(r":\d+:|^ +\d+(?=  )|line \d+", "N", line)


@pytest.mark.parametrize("session", SESSIONS, ids=[session.partition("\n")[0] for session in SESSIONS])
def test_the_page_shows_real_output(
    paths: Mapping[str, Path],
    session: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in paths.values():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAB_DB", "results.db")
    for command, shown in re.findall(r"^\$ lab (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
        assert main(command.split()) == 0
        printed = iter([unnumbered(line) for line in capsys.readouterr().out.splitlines()])
        for line in shown.splitlines():
            assert line == "..." or any(unnumbered(line) == real for real in printed), f"not in this order: {line}"


@pytest.mark.parametrize(
    "command",
    [
        c.name or getattr(c.callback, "__name__", "")
        for app in (guide_commands.app, guide.app, guide.app)
        for c in app.registered_commands
    ],
)
def test_the_page_shows_every_command(command: str) -> None:
    assert [shown for shown in COMMANDS if shown.startswith(f"guide {command} ")] != []


def test_the_page_shows_all_five_guides() -> None:
    assert {name for name in FINDINGS if name not in " ".join(COMMANDS)} == set()


def test_the_page_explains_every_kind_and_verdict() -> None:
    assert {str(kind) for kind in CellKind if f"| `{kind}` |" not in GUIDES} == set()
    explained = {
        word.strip() for row in re.findall(r"^\| ([a-z, ]+) \| ", GUIDES, re.MULTILINE) for word in row.split(",")
    }
    assert {str(verdict) for verdict in Verdict} <= explained


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_every_rule_is_explained_by_its_docstring_and_on_the_page(
    rule: Rule, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(re.findall(r"^Finding: \S", rule.text, re.MULTILINE)) == 1
    page = rule_sections.on_page_markdown((DOCS / "guide-rules.md").read_text(encoding="utf-8"))
    section = page.partition(f"\n### {rule.id}\n")[2].partition("\n### ")[0]
    assert f"Severity: {rule.severity}." in section
    assert f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" in page
    assert main(["guide", "rules", rule.id]) == 0
    assert rule.text in capsys.readouterr().out


def test_the_list_of_rules_has_each_and_an_unknown_one_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guide", "rules"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == [rule.id for rule in load_rules()]
    assert main(["guide", "rules", "nowhere"]) == 2
    assert "'nowhere'" in capsys.readouterr().err


def test_the_page_of_findings_counts_every_finding() -> None:
    text = (DOCS / "guide-findings.md").read_text(encoding="utf-8")
    head, *rows = re.findall(r"^\| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    guides = re.findall(r"`(\S+)`", head)
    counted: dict[str, dict[tuple[str, str], int]] = {name: {} for name in guides}
    for row in rows:
        rule, severity, *counts, _ = [cell.strip() for cell in row.split("|")]
        for name, count in zip(guides, counts, strict=True):
            if count:
                counted[name][rule.partition("]")[0][1:], severity] = int(count)
    assert counted == FINDINGS


def test_every_metric_of_a_guide_has_one_unit_and_direction() -> None:
    entries = [entry.quantity for entry in catalogue.load().entries]
    for metric in entries:
        assert {(other.unit, other.better) for other in entries if other.name == metric.name} == {
            (metric.unit, metric.better)
        }
