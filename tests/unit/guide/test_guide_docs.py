"""The pages on guides say what the commands print and what the rules do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_guide_family import FINDINGS

from lab.cli import guide as guide_commands
from lab.cli import guide_compare, guide_store, main
from lab.guide import catalogue, grouping, rulebook
from lab.guide.compare import Comparison
from lab.guide.grouped import Kind
from lab.guide.model import CellKind
from lab.guide.rulebook import Rule
from lab.judge.verdicts import Verdict

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDES = (DOCS / "guides.md").read_text(encoding="utf-8")
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
        for app in (guide_commands.app, guide_compare.app, guide_store.app)
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


@pytest.mark.parametrize("rule", rulebook.load(), ids=lambda rule: rule.id)
def test_every_rule_has_a_page_with_its_mechanism_and_proof(rule: Rule) -> None:
    page = (DOCS.parent / rule.page).read_text(encoding="utf-8")
    assert page.startswith(f"# {rule.id}: ")
    assert f"\nSeverity: {rule.severity}. " in page
    for heading in ("Mechanism", "Proof", "What boardlab does", "Where it may be wrong"):
        assert len(re.findall(rf"^## {heading}\n\n\S", page, re.MULTILINE)) == 1
    assert (
        f"| [{rule.id}]({rule.id}.md) | {rule.severity} | {rule.title} |"
        in (DOCS / "guide-rules" / "index.md").read_text()
    )


def test_every_page_has_its_rule() -> None:
    assert {path.stem for path in (DOCS / "guide-rules").iterdir()} == {rule.id for rule in rulebook.load()} | {
        "index"
    }


def test_the_page_of_findings_judges_every_finding() -> None:
    text = (DOCS / "guide-findings.md").read_text(encoding="utf-8")
    judged: dict[str, dict[tuple[str, str], int]] = {}
    for name, table in re.findall(r"^## [^\n]* \(`(\S+)`\)\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\| \[(\S+)\]\(guide-rules/\1\.md\) \| (\w+) \| (\d+) \| \w", table, re.MULTILINE)
        judged[name] = {(rule, severity): int(count) for rule, severity, count in rows}
    assert judged == FINDINGS


def test_the_page_of_findings_judges_every_cause_of_the_comparison(comparison: Comparison) -> None:
    text = (DOCS / "guide-findings.md").read_text(encoding="utf-8").partition("## Verdicts: ")[2].partition("\n## ")[0]
    judged = re.findall(r"^\| (.+?) \| (.+?) \| (\d+) \| \w.* \|$", text, re.MULTILINE)
    told = {Kind.WRONG, Kind.WORSE, Kind.SUSPECT, Kind.BETTER}
    assert sorted(judged) == sorted(
        (cause.what, str(cause.kind), str(cause.count)) for cause in grouping.causes(comparison) if cause.kind in told
    )


def test_every_metric_of_a_guide_has_one_unit_and_direction() -> None:
    entries = [entry.quantity.metric for entry in catalogue.load().entries]
    for metric in entries:
        assert {(other.unit, other.better) for other in entries if other.name == metric.name} == {
            (metric.unit, metric.better)
        }
