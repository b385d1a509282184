"""The floors of the house: which room may import which. An import counts wherever it stands in a module."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("lab", "strategies", "virtual", "exporters")

# A room imports only from lower floors, and from itself.
FLOORS = (
    ("lab", "lab.clock", "lab.errors", "lab.redaction", "lab.shipped", "lab.shown"),
    ("lab.boards", "lab.metrics", "lab.statusfiles", "lab.yamlfile"),
    ("lab.console", "lab.results", "lab.benchmarks", "virtual"),
    ("lab.run", "lab.report", "lab.power", "lab.guide", "lab.judge", "exporters"),
    ("lab.drivers", "lab.web"),
    ("lab.strategies", "lab.farm"),
    ("lab.pytest_plugin", "lab.cli", "strategies"),  # the last is an old name of lab.strategies
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS, start=1) for room in rooms}

LABGRID_ROOMS = {"lab.drivers", "lab.strategies", "lab.pytest_plugin"}
LABGRID_MODULES = {"labgrid", "pexpect"}
_BROUGHT = "labgrid brings the strategy to the plugin, which never imports strategies"
_HIDDEN = "a user's conftest may put a folder of that name before ours"
NEVER_BY_THE_PLUGIN = {"lab.strategies": _BROUGHT, "strategies": _BROUGHT, "virtual": _HIDDEN, "exporters": _HIDDEN}


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


def imports(module: str, path: Path) -> Iterator[Import]:
    """Every import of a module, wherever it stands: absolute, relative, or by importlib with a literal name."""
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
            if reason := offence(home, found.target):
                wrong.append(f"{path.relative_to(root)}:{found.line}: {module} imports {found.target}: {reason}")
    return wrong


def offence(home: str, target: str) -> str | None:
    """Why a module of the room `home` may not import `target`; None when it may."""
    if target.partition(".")[0] in LABGRID_MODULES and home not in LABGRID_ROOMS:
        return f"only {', '.join(sorted(LABGRID_ROOMS))} may know labgrid"
    there = room(target)
    if there is None or there == home:
        return None
    if home == "lab.pytest_plugin" and there in NEVER_BY_THE_PLUGIN:
        return NEVER_BY_THE_PLUGIN[there]
    if home == "lab.cli" and FLOOR_OF[there] > FLOOR_OF["lab.boards"]:
        return "the command line names rooms as strings, so that a command starts without loading all of them"
    if FLOOR_OF[there] >= FLOOR_OF[home]:
        return f"floor {FLOOR_OF[there]} is not below floor {FLOOR_OF[home]}"
    return None


def test_every_room_imports_only_from_lower_floors() -> None:
    assert modules(REPOSITORY), "the checker found no modules: it looks in the wrong place"
    assert offences(REPOSITORY) == []


def test_every_package_of_the_wheel_is_checked() -> None:
    pyproject = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(PACKAGES)


MADE_UP = {
    "lab/__init__.py": "",
    "lab/errors.py": "import enum\n",
    "lab/clock.py": "import time\n",
    "lab/boards/__init__.py": "from lab.boards.model import BoardType\n",
    "lab/boards/model.py": "from lab import errors\n",
    "lab/console/__init__.py": "from lab.boards import load\nimport lab.metrics\n",
    "lab/drivers/__init__.py": "import labgrid\nfrom lab.console import Moment\n",
    "lab/strategies/__init__.py": "from labgrid.strategy import Strategy\nfrom lab import drivers\n",
    "lab/pytest_plugin.py": "from labgrid import Target\nfrom lab.console import Moment\n",
    "lab/cli/__init__.py": 'ROOMS = {"console": "lab.console.commands"}\nfrom lab.errors import BoardlabError\n',
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
        ("lab/clock.py", "from lab.errors import BoardlabError\n", "floor 1 is not below floor 1"),
        ("lab/boards/model.py", "import lab.console\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "from lab import console\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "from ..console import Moment\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "from .. import console\n", "floor 3 is not below floor 2"),
        ("lab/boards/__init__.py", "from ..console import Moment\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "def f():\n    from lab import console\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", "if TYPE_CHECKING:\n    import lab.console.server\n", "floor 3 is not below floor 2"),
        ("lab/boards/model.py", 'importlib.import_module("lab.console")\n', "floor 3 is not below floor 2"),
        ("lab/console/__init__.py", "import virtual.uart\n", "floor 3 is not below floor 3"),
        ("lab/drivers/__init__.py", "import lab.strategies\n", "floor 6 is not below floor 5"),
        ("lab/console/__init__.py", "import labgrid\n", "may know labgrid"),
        ("lab/console/__init__.py", "def f():\n    from pexpect import fdpexpect\n", "may know labgrid"),
        ("lab/cli/__init__.py", "from labgrid.step import steps\n", "may know labgrid"),
        ("lab/pytest_plugin.py", "from lab.strategies import BoardStrategy\n", "which never imports strategies"),
        ("lab/pytest_plugin.py", "from strategies import BoardStrategy\n", "which never imports strategies"),
        ("lab/pytest_plugin.py", "from virtual import bench\n", "may put a folder of that name before ours"),
        ("lab/cli/__init__.py", "from lab.console import commands\n", "names rooms as strings"),
        ("lab/attic.py", "", "stands on no floor"),
    ],
)
def test_an_import_upwards_or_sideways_is_named_with_its_line(tmp_path: Path, file: str, text: str, says: str) -> None:
    found = offences(build(tmp_path, {file: text}))
    assert len(found) == 1
    assert found[0].startswith(file)
    assert says in found[0]
