"""Mutants of boardlab: one change of one line each, drawn by a number; which ones do seeds, or unit tests, find?

    env -C tests ../.venv/bin/python -m support.simulation.mutants --count 100 --tests
    env -C tests ../.venv/bin/python -m support.simulation.mutants --count 60 --core

A mutant of a line that no schedule reaches is not drawn. With `--tests` the unit tests that import its module, and those of
its package, have those that no seed finds. `--core` draws from the modules that measure; unit tests alone look for these.

No change is drawn of what people read: texts, lines (`_TELLING`), raised errors, and functions that make such lines, expected
ends, diagnosis or uploads (`_TEXTS`); nor of `strict` of zip, which asserts. `harmless.toml` names changes that break no
promise, with their reasons; they are not drawn, either.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import io
import json
import os
import random
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
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
CORE: Final = (
    *("lab.console.moments", "lab.console.printk", "lab.metrics.rates", "lab.metrics.uncertainty"),
    *("lab.benchmarks.boot.crosscheck", "lab.benchmarks.boot.timeline"),
)
_TEXTS: Final = frozenset(
    {
        *(
            "describe_job",
            "busy",
            "obstacle",
            "moment",
            "_expected_end",
            "_by_earlier_runs",
            "_durations_s",
            "_plan_repeats",
        ),
        *("_times", "_is_whole", "describe_plan", "line", "extend_error", "_message", "ProgressPrinter", "_asking"),
        *("print_lab_faults", "report_parts", "asks_diagnosis", "_worse_boots", "_numbers", "described", "_warn"),
        *("_release_reason", "start_upload"),
    }
)
SHARE: Final = 0.9  # of the mutants that shall be found
_UNIT_S: Final = 3_600.0  # for the tests of a package; each of them has a limit of its own
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

    @property
    def key(self) -> tuple[str, str, str]:
        """As `harmless.toml` names it; a line's number changes with those before it."""
        return self.module, self.before, self.after


def changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, Callable[[], None]]]:
    """Each change that can be made in a syntax tree: the statement, and a function that makes it."""
    for statement in _walk(tree):
        if not isinstance(statement, ast.stmt) or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        for node in _expressions(statement):
            if change := _change(node):
                yield statement, change
        for name in ("body", "orelse", "finalbody"):
            block = getattr(statement, name, None)
            if isinstance(block, list):
                yield from _dropped_calls(block)
    for function in _walk(tree):
        if isinstance(function, ast.FunctionDef):
            yield from _dropped_calls(function.body)


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """As ast.walk, without functions and classes that make texts."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in _TEXTS):
            yield node
            waiting += ast.iter_child_nodes(node)


def _dropped_calls(block: list[ast.stmt]) -> Iterator[tuple[ast.stmt, Callable[[], None]]]:
    for at, statement in enumerate(block):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and not _tells(statement.value):
            yield statement, lambda at=at, old=statement: block.__setitem__(at, ast.copy_location(ast.Pass(), old))


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement, without inner statements and texts."""
    if isinstance(statement, ast.Raise):
        return
    waiting: list[ast.AST] = [node for node in ast.iter_child_nodes(statement) if not isinstance(node, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if _tells(node) or (isinstance(node, ast.keyword) and node.arg == "strict"):
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


def mutants_of(module: str, reached: set[int] | None) -> Iterator[Mutant]:
    """The mutants of a module's lines that were reached; None: of all."""
    source = _path(module).read_text(encoding="utf-8")
    count = sum(1 for _ in changes(ast.parse(source)))
    for number in range(count):
        statement, change = _nth(tree := ast.parse(source), number)
        if reached is None or statement.lineno in reached:
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


def find_by_tests(module: str) -> str:
    """Run the unit tests that import a mutant's module, and those of its package; the first one that failed."""
    import pytest  # noqa: PLC0415

    class First:
        failed = ""

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            self.failed = self.failed or report.nodeid * report.failed

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            self.failed = self.failed or report.nodeid * report.failed

    importlib.import_module(module)  # before pytest has it imported by a loader of its own, which rewrites plugins
    first, package = First(), module.split(".")[1]
    os.chdir(Path(__file__).parents[3])
    imports = f"from {module} import"
    importing = [str(path) for path in sorted(Path("tests/unit").rglob("test_*.py")) if imports in path.read_text()]
    paths = [*importing, f"tests/unit/{package}"]
    with redirect_stdout(io.StringIO()):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not longer", *paths], [first])
    return first.failed.rpartition("/")[2] or ("it does not start" if code else "")


def find(module: str, budget_s: float) -> str:
    """Simulate schedules of a mutant for so much processor time; what was found."""
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
    options.add_argument(
        "--tests", action="store_true", help="have the unit tests look for those that seeds do not find"
    )
    options.add_argument("--core", action="store_true", help="draw from the modules that measure, for unit tests")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args(words)
    if given.one:
        module, number, path = json.loads(given.one)
        sys.meta_path.insert(0, _Finder(module, number, Path(path)))
        print(find_by_tests(module) if given.tests else find(module, given.budget))
        return 0
    modules = CORE if given.core else MODULES
    reached = None if given.core else reached_lines()
    harmless = read_harmless()
    every = [
        mutant
        for module in modules
        for mutant in mutants_of(module, None if reached is None else reached[module])
        if mutant.key not in harmless
    ]
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    counts = Counter[str]()
    for mutant in drawn:
        begun_s = time.monotonic()
        by, told = "seeds", "" if given.core else _look(mutant, given.budget, ())
        if not told and (given.tests or given.core):
            by, told = "unit tests", _look(mutant, _UNIT_S, ("--tests",))
        counts[by] += bool(told)
        print(f"{mutant.module}:{mutant.line}: {mutant.before}  ->  {mutant.after}: {told or 'NOT FOUND'}", end="")
        print(f" ({time.monotonic() - begun_s:.0f} s)", flush=True)
    found = ", ".join(f"{count} by {by}" for by, count in sorted(counts.items()) if count)
    print(f"{sum(counts.values())} of {len(drawn)} mutants found: {found}; {len(every)} can be drawn")
    return int(sum(counts.values()) < SHARE * len(drawn))


def _look(mutant: Mutant, budget_s: float, more: Sequence[str]) -> str:
    """Look for a mutant in a process of its own; what was found."""
    one = json.dumps([mutant.module, mutant.number, str(_path(mutant.module))])
    program = [sys.executable, "-m", __spec__.name, "--budget", str(budget_s), "--one", one, *more]
    limit_s = budget_s if more else 20 * budget_s + 60
    try:
        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "" if more else "it does not end"
    return done.stdout.strip() if done.returncode == 0 else "it does not start"


def read_harmless() -> frozenset[tuple[str, str, str]]:
    """The changes that break no promise, by `Mutant.key`."""
    document = tomllib.loads(Path(__file__).with_name("harmless.toml").read_text(encoding="utf-8"))
    return frozenset((one["module"], one["before"], one["after"]) for one in document["mutants"])


if __name__ == "__main__":
    sys.exit(main())
