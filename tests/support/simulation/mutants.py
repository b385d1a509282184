"""Mutants of the code that the simulation runs: one change of one line each, drawn by a number; which ones do seeds find?

    env -C tests ../.venv/bin/python -m support.simulation.mutants --count 100

A mutant of a line that no schedule reaches is not drawn. A mutant that is not found is a blind spot, or changes nothing that is promised.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from attrs import frozen

MODULES: Final = (
    *("lab.farm.rerun", "lab.farm.runner", "lab.health.reservations", "lab.health.store"),
    *("lab.jobs.lease", "lab.jobs.listing", "lab.jobs.queue", "lab.jobs.records", "lab.jobs.waiting"),
    *("lab.places.janitor", "lab.places.job_place", "lab.places.place"),
    *("lab.provision.history", "lab.provision.provisioning", "lab.provision.writers.emmc_boot_partitions"),
    *("lab.pytest_plugin.jobs", "lab.pytest_plugin.provisioning", "lab.pytest_plugin.run_session"),
    *("lab.results.rows", "lab.results.store", "lab.run.engine"),
)
_TELLING: Final = frozenset({"say", "write_line", "warning", "debug", "info", "attempt_failed", "print_lab_faults"})
SEEDS: Final = 40  # that show which lines are reached
_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@frozen
class Mutant:
    """One change of a module.

    Attributes:
        number: of the change, in the order of the module's syntax tree.
        before, after: the changed statement.
    """

    module: str
    number: int
    line: int
    before: str
    after: str


def changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, Callable[[], None]]]:
    """Each change that can be made in a syntax tree: the statement, and a function that makes it."""
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        for node in _expressions(statement):
            if change := _change(node):
                yield statement, change
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, None)
            if isinstance(block, list):
                yield from _dropped_calls(block)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            yield from _dropped_calls(function.body)


def _dropped_calls(block: list[ast.stmt]) -> Iterator[tuple[ast.stmt, Callable[[], None]]]:
    for at, statement in enumerate(block):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not _tells(statement.value):
            yield statement, lambda at=at, old=statement: block.__setitem__(at, ast.copy_location(ast.Pass(), old))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without those of the statements within it, and without texts."""
    if isinstance(statement, ast.Raise):
        return
    waiting: list[ast.AST] = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if _tells(node):
            continue
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _tells(node: ast.AST) -> bool:
    """True of a text, or of a call that says one: nothing is promised of its words."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _TELLING
    return isinstance(node, ast.JoinedStr)


def _change(node: ast.AST) -> Callable[[], None] | None:
    change: tuple[str, object] | None = None
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _OPPOSITE:
            change = "ops", [_OPPOSITE[type(operator)]()]
        case ast.BoolOp(op=ast.And()):
            change = "op", ast.Or()
        case ast.BoolOp(op=ast.Or()):
            change = "op", ast.And()
        case ast.Constant(value=bool() as value):
            change = "value", not value
        case ast.BinOp(op=ast.Add(), left=left, right=right) if not any(map(_is_text, (left, right))):
            change = "op", ast.Sub()
        case ast.BinOp(op=ast.Sub()):
            change = "op", ast.Add()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            change = "operand", ast.UnaryOp(ast.Not(), operand)
    return None if change is None else partial(setattr, node, *change)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def mutants_of(module: str, reached: set[int]) -> Iterator[Mutant]:
    """The mutants of a module's lines that were reached."""
    source = _path(module).read_text(encoding="utf-8")
    count = sum(1 for _ in changes(ast.parse(source)))
    for number in range(count):
        statement, change = _nth(tree := ast.parse(source), number)
        if statement.lineno in reached:
            before = ast.unparse(statement).splitlines()[0]
            change()
            after = next(
                (text for text in _difference(source, ast.unparse(ast.fix_missing_locations(tree)))), "dropped"
            )
            yield Mutant(module, number, statement.lineno, before, after)


def _difference(source: str, after: str) -> list[str]:
    plain = set(ast.unparse(ast.parse(source)).splitlines())
    return [line.strip() for line in after.splitlines() if line not in plain]


def _nth(tree: ast.Module, number: int) -> tuple[ast.stmt, Callable[[], None]]:
    return next(found for at, found in enumerate(changes(tree)) if at == number)


def _path(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


class _Loader(SourceFileLoader):
    number = 0

    def source_to_code(self, data: Any, path: Any, *_options: Any, **_more: Any) -> CodeType:
        tree = ast.parse(data)
        _, change = _nth(tree, self.number)
        change()
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def get_code(self, fullname: str) -> CodeType:  # without the cache of bytecode
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@frozen
class _Finder(MetaPathFinder):
    module: str
    number: int
    path: Path

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        loader = _Loader(fullname, str(self.path))
        loader.number = self.number
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


def find(module: str, number: int, path: Path, budget_s: float) -> str:
    """Simulate schedules of a mutant for so much processor time; what was found."""
    sys.meta_path.insert(0, _Finder(module, number, path))
    try:
        from support.simulation.choices import Choices  # noqa: PLC0415 - it imports the mutant
        from support.simulation.database import results  # noqa: PLC0415
        from support.simulation.simulate import hushed, simulate  # noqa: PLC0415

        until_s, seed = time.process_time() + budget_s, 0
        with hushed(), results() as lab:
            while time.process_time() < until_s:
                seed += 1
                if name := simulate(lab, Choices.of(seed)).name:
                    return f"seed {seed}: {name}"
    except Exception as error:  # noqa: BLE001 - a mutant may break anything
        return f"seed {seed if 'seed' in locals() else 0}: {type(error).__name__}"
    return ""


def reached_lines() -> Mapping[str, set[int]]:
    """Module -> the lines that some schedules execute."""
    paths = {str(_path(module)): module for module in MODULES}
    lines: dict[str, set[int]] = defaultdict(set)

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        module = paths.get(frame.f_code.co_filename)
        if module is None:
            return None

        def local(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                lines[module].add(frame.f_lineno)
            return local

        return local

    from greenlet import settrace  # noqa: PLC0415

    from support.simulation.choices import Choices  # noqa: PLC0415 - not into the process that measures a mutant
    from support.simulation.database import results  # noqa: PLC0415
    from support.simulation.simulate import hushed, simulate  # noqa: PLC0415

    settrace(lambda *_: sys.settrace(trace))  # each greenlet has a trace function of its own
    with hushed(), results() as lab:
        for seed in range(1, SEEDS + 1):
            simulate(lab, Choices.of(seed))
    sys.settrace(None)
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """The program."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=1, help="of the draw")
    options.add_argument("--budget", type=float, default=600.0, metavar="S", help="processor time for each mutant")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.one:
        module, number, path = json.loads(given.one)
        print(find(module, number, Path(path), given.budget))
        return 0
    reached = reached_lines()
    every = [mutant for module in MODULES for mutant in mutants_of(module, reached[module])]
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    living = 0
    for mutant in drawn:
        one = json.dumps([mutant.module, mutant.number, str(_path(mutant.module))])
        program = [sys.executable, "-m", __spec__.name, "--budget", str(given.budget), "--one", one]
        begun_s = time.monotonic()
        try:
            done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=20 * given.budget + 60)
            told = done.stdout.strip() if done.returncode == 0 else "it does not start"
        except subprocess.TimeoutExpired:
            told = "it does not end"
        living += not told
        print(f"{mutant.module}:{mutant.line}: {mutant.before}  ->  {mutant.after}: {told or 'NOT FOUND'}", end="")
        print(f" ({time.monotonic() - begun_s:.0f} s)", flush=True)
    print(f"{len(drawn) - living} of {len(drawn)} mutants found; {len(every)} can be drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main())
