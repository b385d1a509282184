"""The catalogue of failures has every class that the code, the board types and the documents know."""

from __future__ import annotations

import re
from pathlib import Path

from lab import boards
from lab.boards import registry
from lab.drivers import guarded_calls
from lab.failures import CATALOGUE, DRIVERS, ENDS

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
    page = (ROOT / "docs" / "failures.md").read_text("utf-8")
    formed = {f"{driver}_{end}" for driver in DRIVERS for end in ENDS}
    listed = {
        name for cell in re.findall(r"^\| (`.+?) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert CATALOGUE - formed <= listed <= CATALOGUE
    rule = (ROOT / "docs" / "lab-failures.md").read_text("utf-8")
    assert {part for part in (*DRIVERS, *(f"_{end}" for end in ENDS)) if f"`{part}`" not in rule} == set()


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
