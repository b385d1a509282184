"""An option that several commands have is one object, so that it cannot mean or say one thing here and another there."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

CLI = Path(__file__).resolve().parents[3] / "lab" / "cli"


def options(path: Path) -> list[str]:
    """The options that a module writes out."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "Annotated"
        and "typer.Option(" in ast.unparse(node)
    ]


def test_no_two_modules_write_out_the_same_option() -> None:
    places = defaultdict(set)
    for path in sorted(CLI.glob("*.py")):
        for option in options(path):
            places[option].add(path.name)
    assert len(places) > 50
    assert {option: names for option, names in places.items() if len(names) > 1} == {}


def test_what_says_where_results_and_farm_are_stands_in_one_module() -> None:
    """Two words for the same would be two objects again. The exporter asks farm.yaml first, as the unit that runs it does."""
    found = {
        (flag, path.name)
        for path in CLI.glob("*.py")
        for option in options(path)
        for flag in ("'--db'", "'--json'", "'--farm'", "'--runtime'")
        if f"typer.Option({flag}" in option
    }
    assert found == {
        ("'--db'", "options.py"),
        ("'--db'", "exporter.py"),
        ("'--json'", "options.py"),
        ("'--json'", "provision.py"),  # what became of it
        ("'--json'", "results.py"),  # of `export`, whose default it is
        ("'--farm'", "options.py"),
        ("'--farm'", "farm.py"),  # where a host will keep it, and the farm of one user
        ("'--runtime'", "options.py"),
    }
