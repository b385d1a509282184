"""The catalogue of failures has every class that the code, the board types and the documents know."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import failure_tables
import pytest
from support.facts import missing_facts

from lab import boards, errors
from lab.boards import registry
from lab.cli import main
from lab.drivers import guarded_calls
from lab.errors import BoardlabError
from lab.failures import CATALOGUE, CHAPTERS, DRIVERS, ENDS, OTHER
from lab.provision import errors as provisioning

ROOT = Path(__file__).resolve().parents[2]
GIVEN = re.compile(r'(?i:failure)(?:: \w+)? ?= ?"([a-z0-9_]+)"')


def test_it_has_every_class_that_the_library_gives() -> None:
    measuring = [
        path for path in (ROOT / "lab").rglob("*.py") if path.parent.name != "farm" and "virtual" not in path.parts
    ]
    given = {name for path in measuring for name in GIVEN.findall(path.read_text("utf-8"))}
    assert {"silent", "unreadable_output"} <= given
    assert given <= CATALOGUE


def test_the_page_on_failures_has_every_class_and_no_other() -> None:
    """Those of labgrid's drivers are formed there by a rule, in docs/lab-failures.md."""
    page = failure_tables.on_page_markdown((ROOT / "docs" / "failures.md").read_text("utf-8"))
    formed = {f"{driver}_{end}" for driver in DRIVERS for end in ENDS}
    listed = {
        name for cell in re.findall(r"^\| (`.+?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert CATALOGUE - formed <= listed <= CATALOGUE
    rule = (ROOT / "docs" / "lab-failures.md").read_text("utf-8")
    assert {part for part in (*DRIVERS, *(f"_{end}" for end in ENDS)) if f"`{part}`" not in rule} == set()


def raised() -> dict[str, set[type[BoardlabError]]]:
    """The errors that the library raises with a class, by the class; a board's texts are transient."""
    found: dict[str, set[type[BoardlabError]]] = {}
    for kind in vars(provisioning).values():
        if isinstance(kind, type) and issubclass(kind, BoardlabError) and "failure" in vars(kind):
            found.setdefault(str(kind.failure), set()).add(kind)
    for sign in (sign for name in registry.names() for sign in registry.load(name).failures.values()):
        found.setdefault(sign.means, set()).add(errors.BoardTransientError)
    for path in (ROOT / "lab").rglob("*.py"):
        if "failure=" not in (source := path.read_text("utf-8")):
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                kind = getattr(errors, call.func.id, None)
                for word in call.keywords if kind else ():
                    if word.arg == "failure" and isinstance(word.value, ast.Constant):
                        found.setdefault(word.value.value, set()).add(kind)
    return found


TRANSIENT = (errors.BoardTransientError, errors.LabTransientError, errors.TestTransientError)
ROWS = {name: each for classes in CHAPTERS.values() for each in classes for name in each.names}


def test_the_explained_fault_and_next_step_are_those_of_the_errors() -> None:
    kinds_by_name = {name: kinds for name, kinds in raised().items() if name in ROWS}
    assert {"kernel_panic", "pdu_timeout", "silent"} <= set(kinds_by_name)
    for name, kinds in kinds_by_name.items():
        row = ROWS[name]
        assert {kind.fault for kind in kinds} <= set(row.fault.split(" or ")), name
        if all(issubclass(kind, TRANSIENT) for kind in kinds):
            assert not row.then.startswith("stops") or "again" in row.then, name
        if not any(issubclass(kind, TRANSIENT) for kind in kinds):
            assert row.then != "again", name


def test_the_command_explains_each_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "failures"]) == 0
    listed = capsys.readouterr().out
    assert {name for name in ROWS if name not in listed} == set()
    assert main(["results", "failures", *sorted(CATALOGUE - {OTHER})]) == 0
    told = capsys.readouterr().out
    entry = "\n".join(told[told.index("pdu_timeout: ") :].splitlines()[:2])
    assert not missing_facts(entry, "30 s", "ping the PDU\n", "fault: lab", "then: again")
    assert "strap_timeout: docs/lab-failures.md\n" in told
    assert main(["results", "failures", "nowhere"]) == 2
    assert "'nowhere'" in capsys.readouterr().err


def test_it_has_every_class_that_a_board_type_recognises() -> None:
    given = {sign.means for name in registry.names() for sign in registry.load(name).failures.values()}
    assert "kernel_panic" in given
    assert given <= CATALOGUE


def test_it_has_every_class_of_labgrids_drivers() -> None:
    kinds = {kind.name for kind in vars(guarded_calls).values() if isinstance(kind, guarded_calls.DriverRole)}
    ends = set(re.findall(r'Meaning\(\s*"(\w+)"', Path(guarded_calls.__file__).read_text("utf-8")))
    assert (kinds, ends) == (set(DRIVERS), set(ENDS))


def test_it_has_every_stage_that_a_boot_can_hang_in() -> None:
    source = Path(boards.__file__).parents[1] / "benchmarks" / "boot" / "watch.py"
    stage = source.read_text("utf-8").partition("def _stage(self)")[2].partition("\n    def ")[0]
    stages = set(re.findall(r'(?:return|else) "(\w+)"', stage))
    assert stages >= {"kernel", "before_login"}
    assert {f"hang_{name}" for name in (*stages, "uboot", "spl")} <= CATALOGUE
