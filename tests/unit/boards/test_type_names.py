"""No code asks for a board type by its name: what a type can do stands in its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from lab import boards

REPOSITORY = Path(__file__).resolve().parents[3]
FAMILY_LETTERS = 4  # am62, am43
_SHIPPED = [boards.load(name) for name in boards.shipped()]
_FAMILIES = {board.name[:FAMILY_LETTERS] for board in _SHIPPED if not board.virtual}
# A type's name, or a word that begins as the name of a family does. An environment's or a guide's file may be an example.
NAMED = re.compile(
    rf"(?<![a-z0-9])(?:{'|'.join(sorted(map(re.escape, _FAMILIES | {board.name for board in _SHIPPED})))})(?![\w.-]*\.(?:yaml|rst))",
    re.IGNORECASE,
)
VIRTUAL = REPOSITORY / "lab" / "virtual"
TYPED = REPOSITORY / "lab" / "cli" / "examples.py"  # a person's words, which name one
MEASURING = [
    path
    for room in ("lab", "strategies", "tests_perf", "exporters")
    for path in (REPOSITORY / room).rglob("*.py")
    if not path.is_relative_to(VIRTUAL) and path != TYPED
]
SIMULATING = sorted((VIRTUAL / "sim").rglob("*.py"))
_ASKING = {"startswith", "endswith", "removeprefix", "find", "match", "fullmatch", "search"}


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    """Strings that stand alone: they document, and do nothing."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Lines of strings that name a type."""
    if not NAMED.search(source):
        return
    tree = ast.parse(source)
    documents = _docstrings(tree)
    for node in ast.walk(tree):
        if _is_name(node) and node not in documents:
            yield node.lineno, node.value


def _is_name(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMED.search(node.value) is not None


def asked_in(source: str) -> Iterator[tuple[int, str]]:
    """Lines that compare something with a string that names a type."""
    for node in ast.walk(ast.parse(source)) if NAMED.search(source) else ():
        match node:
            case ast.Compare() | ast.MatchValue():
                pass
            case ast.Call(func=ast.Attribute(attr=name)) if name in _ASKING:
                pass
            case _:
                continue
        for part in ast.walk(node):
            if _is_name(part):
                yield part.lineno, part.value


@pytest.mark.parametrize(
    "check",
    [
        'board.name.startswith(("am62xx", "qemu-virt"))',
        'if board.name == "am654x-evm": pass',
        'FRAMES = {"am43": 64}',
        'name in ("AM62A", "x")',
        'f"am62{letter}_sk"',
        're.match(r"am6[25]|am65", name)',
    ],
)
def test_a_check_of_a_name_is_seen(check: str) -> None:
    assert list(names_in(check))


@pytest.mark.parametrize("harmless", ['"pytest --lg-env am62x.yaml"', '"""The AM62x."""', 'x = "beam62"', "am62 = 1"])
def test_what_names_no_type_is_left_alone(harmless: str) -> None:
    assert list(names_in(harmless)) == []


def test_no_code_that_measures_names_a_board_type() -> None:
    found = [(str(p.relative_to(REPOSITORY)), *hit) for p in MEASURING for hit in names_in(p.read_text("utf-8"))]
    assert found == [], "what a type can do is a key of its file: docs/adding-a-board.md"


def test_no_simulation_asks_for_a_type_by_its_name() -> None:
    assert list(asked_in('if model.board.name.startswith("am43"): pass'))
    assert list(asked_in('x = 1 if profile == "am43xx" else 2'))
    found = [(str(p.relative_to(REPOSITORY)), *hit) for p in SIMULATING for hit in asked_in(p.read_text("utf-8"))]
    assert found == [], "what a type can do is a key of its file: docs/adding-a-board.md"
