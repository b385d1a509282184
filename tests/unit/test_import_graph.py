"""Which room may import which, and that no modules import each other. An import counts wherever it stands in a module."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from attrs import frozen

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("lab", "strategies", "exporters")

# A room imports only from lower floors, and from itself.
FLOORS = (
    ("lab", "lab.errors", "lab.failures", "lab.redaction", "lab.package_data", "lab.sleep_modes", "lab.terminal"),
    ("lab.extensions", "lab.host", "lab.tomlfile"),
    ("lab.boards", "lab.metrics", "lab.yamlfile"),
    ("lab.console", "lab.results", "lab.benchmarks", "lab.virtual", "lab.http"),
    ("lab.health", "lab.judge", "lab.figures"),
    ("lab.jobs",),  # its queue asks health whether a board is kept out
    ("lab.rails", "lab.run", "lab.guide", "lab.report"),
    ("lab.provision",),
    ("lab.drivers",),
    ("lab.env",),
    ("lab.places",),
    ("lab.control", "lab.farm", "exporters"),
    ("strategies", "lab.web"),
    ("lab.pytest_plugin", "lab.cli"),
)
# Folders of a room that stand on each other, the lowest first; what stands beside them is below them all.
STAIRS = {"lab.guide": ("read", "check", "compare", "write")}
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS, start=1) for room in rooms}

LABGRID_ROOMS = {"lab.drivers", "lab.env", "lab.places", "lab.control", "strategies", "lab.pytest_plugin"}
LAZY = {"lab.cli", "lab.cli.main"}  # what every start of `lab` loads
LABGRID_MODULES = {"labgrid", "pexpect"}
_BROUGHT = "labgrid brings the strategy to the plugin, which never imports strategies"
_VIRTUAL = "a measurement does not know whether its board is virtual"
_HIDDEN = "a user's conftest may put a folder of that name before ours"
NEVER_BY_THE_PLUGIN = {
    "lab.control": _BROUGHT,
    "strategies": _BROUGHT,
    "lab.virtual": _VIRTUAL,
    "exporters": _HIDDEN,
}


@frozen
class Import:
    """One import statement: `module` (dotted) imports `target` (dotted, may name a thing in a module)."""

    module: str
    line: int
    target: str


def modules(root: Path, packages: tuple[str, ...] = PACKAGES) -> dict[str, Path]:
    """Dotted name -> file of every module under the packages that exist."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str, path: Path) -> tuple[Import, ...]:
    """Every import of a module, wherever it stands: absolute, relative, or by importlib with a literal name."""
    return tuple(_imports(module, path))


def _imports(module: str, path: Path) -> Iterator[Import]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield Import(module, node.lineno, name.name)
            case ast.ImportFrom(module=source, names=names, level=level):
                parents = package.split(".")
                base = parents[: len(parents) - level + 1] if level else []
                for name in names:
                    yield Import(module, node.lineno, ".".join([*base, *([source] if source else []), name.name]))
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(target)), *_]):
                yield Import(module, node.lineno, target)
            case _:
                pass


def room(dotted: str) -> str | None:
    """The room of a module or of a thing in one; None outside the house."""
    parts = dotted.split(".")
    return next((name for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in FLOOR_OF), None)


def offences(root: Path) -> list[str]:
    """What breaks the floors, as sentences with file and line."""
    wrong = []
    for module, path in modules(root).items():
        home = room(module)
        if home is None or (home == "lab" and module != "lab"):
            wrong.append(f"{path.relative_to(root)}: {module} stands on no floor; add its room to FLOORS")
            continue
        for found in imports(module, path):
            if reason := offence(module, home, found.target):
                wrong.append(f"{path.relative_to(root)}:{found.line}: {module} imports {found.target}: {reason}")
    return wrong


def offence(module: str, home: str, target: str) -> str | None:
    """Why a module of the room `home` may not import `target`; None when it may."""
    knows = home in LABGRID_ROOMS
    if target.partition(".")[0] in LABGRID_MODULES and not knows:
        return f"only {', '.join(sorted(LABGRID_ROOMS))} may know labgrid"
    there = room(target)
    if there is None or (there == home and step(home, target) <= step(home, module)):
        return None
    if there == home:
        return f"{target} stands above"
    if home == "lab.pytest_plugin" and there in NEVER_BY_THE_PLUGIN:
        return NEVER_BY_THE_PLUGIN[there]
    if module in LAZY and FLOOR_OF[there] > FLOOR_OF["lab.boards"]:
        return "the command line names modules as strings, so that a command starts without loading all of them"
    return (
        f"floor {FLOOR_OF[there]} is not below floor {FLOOR_OF[home]}" if FLOOR_OF[there] >= FLOOR_OF[home] else None
    )


def step(room: str, dotted: str) -> int:
    """The stair of a module in its room; 0 below all folders, and in a room without stairs."""
    folder = dotted.removeprefix(room).lstrip(".").partition(".")[0]
    return {name: number for number, name in enumerate(STAIRS.get(room, ()), start=1)}.get(folder, 0)


def circle(root: Path) -> list[str]:
    """Modules that import each other, from one back to itself; none where there is no such circle."""
    paths = modules(root)
    arrows = {
        module: {
            known for found in imports(module, path) if (known := _module(found.target, paths)) and known != module
        }
        for module, path in paths.items()
    }
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def _module(target: str, paths: dict[str, Path]) -> str:
    """The module of ours that an import names: itself, or the one that the thing is in; empty: none."""
    while target and target not in paths:
        target = target.rpartition(".")[0]
    return target


def test_no_modules_import_each_other() -> None:
    assert circle(REPOSITORY) == []


def test_a_circle_of_files_is_found_wherever_its_imports_stand(tmp_path: Path) -> None:
    house = {
        "lab/boards/model.py": "if TYPE_CHECKING:\n    from lab.boards.registry import load\n",
        "lab/boards/registry.py": "def f():\n    from lab.boards import release\n",
        "lab/boards/release.py": "from lab.boards.model import BoardType\n",
    }
    assert circle(build(tmp_path / "sound", {})) == []
    assert set(circle(build(tmp_path / "round", house))) == {
        "lab.boards.model",
        "lab.boards.registry",
        "lab.boards.release",
    }


def test_a_simulated_board_has_at_most_eight_floors() -> None:
    paths = {module: path for module, path in modules(REPOSITORY).items() if module.startswith("lab.virtual.sim.")}
    part = {module: module.split(".")[3] for module in paths}
    arrows: dict[str, set[str]] = {name: set() for name in part.values()}
    for module, path in paths.items():
        targets = {_module(statement.target, paths) for statement in imports(module, path)} - {""}
        arrows[part[module]] |= {part[target] for target in targets} - {part[module]}
    floor: dict[str, int] = {}
    for name in TopologicalSorter(arrows).static_order():  # raises where folders stand on each other
        floor[name] = 1 + max((floor[below] for below in arrows[name]), default=0)
    assert max(floor.values()) <= 8, floor


def test_every_room_imports_only_from_lower_floors() -> None:
    assert modules(REPOSITORY), "the checker found no modules: it looks in the wrong place"
    assert offences(REPOSITORY) == []


def test_every_package_of_the_wheel_is_checked() -> None:
    pyproject = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(PACKAGES)


MADE_UP = {
    "lab/__init__.py": "",
    "lab/errors.py": "import enum\n",
    "lab/host/__init__.py": "",
    "lab/host/clock.py": "import time\n",
    "lab/boards/__init__.py": "from lab.boards.model import BoardType\n",
    "lab/boards/model.py": "from lab import errors\n",
    "lab/console/__init__.py": "from lab.boards import load\nimport lab.metrics\n",
    "lab/drivers/__init__.py": "import labgrid\nfrom lab.console import Moment\n",
    "strategies/boardstrategy.py": "from labgrid.strategy import Strategy\nfrom lab import drivers\n",
    "lab/pytest_plugin.py": "from labgrid import Target\nfrom lab.console import Moment\n",
    "lab/cli/__init__.py": 'COMMAND_GROUPS = {"console": "lab.cli.console"}\nfrom lab.errors import BoardlabError\n',
}


def build(root: Path, changes: dict[str, str]) -> Path:
    for name, text in {**MADE_UP, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_sound_house_has_no_offences(tmp_path: Path) -> None:
    assert offences(build(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("lab/errors.py", "from lab.terminal import echo\n", "floor 1 is not below floor 1"),
        ("lab/host/clock.py", "from lab.boards import load\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "import lab.console\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", "from lab import console\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", "from ..console import Moment\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", "from .. import console\n", "floor 4 is not below floor 3"),
        ("lab/boards/__init__.py", "from ..console import Moment\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", "def f():\n    from lab import console\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", "if TYPE_CHECKING:\n    import lab.console.server\n", "floor 4 is not below floor 3"),
        ("lab/boards/model.py", 'importlib.import_module("lab.console")\n', "floor 4 is not below floor 3"),
        ("lab/console/__init__.py", "import lab.virtual.uart\n", "floor 4 is not below floor 4"),
        ("lab/drivers/__init__.py", "import lab.control\n", "floor 12 is not below floor 9"),
        ("lab/console/__init__.py", "import labgrid\n", "may know labgrid"),
        ("lab/console/__init__.py", "def f():\n    from pexpect import fdpexpect\n", "may know labgrid"),
        ("lab/cli/__init__.py", "from labgrid.step import steps\n", "may know labgrid"),
        ("lab/pytest_plugin.py", "from lab.control import lowpower\n", "which never imports strategies"),
        (
            "lab/pytest_plugin.py",
            "from strategies.boardstrategy import BoardStrategy\n",
            "which never imports strategies",
        ),
        ("lab/pytest_plugin.py", "from lab.virtual import bench\n", "does not know whether its board is virtual"),
        ("lab/cli/__init__.py", "from lab.console import commands\n", "names modules as strings"),
        ("lab/attic.py", "", "stands on no floor"),
        (
            "lab/guide/read/rst.py",
            "from lab.guide.check import annotations\n",
            "lab.guide.check.annotations stands above",
        ),
        ("lab/guide/model.py", "from lab.guide import read\n", "lab.guide.read stands above"),
        ("lab/guide/compare/causes.py", "import lab.guide.write.page\n", "lab.guide.write.page stands above"),
    ],
)
def test_an_import_upwards_or_sideways_is_named_with_its_line(tmp_path: Path, file: str, text: str, says: str) -> None:
    found = offences(build(tmp_path, {file: text}))
    assert len(found) == 1
    assert found[0].startswith(file)
    assert says in found[0]
