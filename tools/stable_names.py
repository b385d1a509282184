"""The names that stay within a major version: `python tools/stable_names.py` writes docs/stable-names.txt.

A line is a kind and a name. A test compares the file with the code, so that a change is a decision: a new name is added by this
program; one that goes is deprecated for a minor version first (docs/farm/upgrade.md).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import os
import pkgutil
import sys
import tempfile
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import attr
import man_page
import metric_table
import pytest
import requests
from labgrid import target_factory

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from support import recorded_run  # noqa: E402
from support.jobbook import ORDER  # noqa: E402
from support.judged_store import Nights  # noqa: E402
from support.web_serving import serving  # noqa: E402

from lab import cli, drivers, extensions, pytest_plugin  # noqa: E402
from lab.boards import BoardType  # noqa: E402
from lab.failures import CATALOGUE  # noqa: E402
from lab.farm.config import Farm  # noqa: E402
from lab.host import process  # noqa: E402
from lab.jobs.queue import JobQueue  # noqa: E402
from lab.metrics import Flag, lab_metrics  # noqa: E402
from lab.metrics.catalogue import ALL  # noqa: E402
from lab.metrics.rates import RATES  # noqa: E402
from lab.provision.release import Release  # noqa: E402
from lab.results import open_store  # noqa: E402
from lab.results.models import Base  # noqa: E402
from lab.web.app import create  # noqa: E402
from lab.web.site import Site  # noqa: E402

PAGE: Final = ROOT / "docs" / "stable-names.txt"
_FIXTURE: Final = type(pytest.fixture(lambda: None))
_PRINTS_JSON: Final = (
    "console check am62xx_sk console.log",
    "env check --env env.yaml",
    "env list",
    "guide read performance-guide-11.01.rst",
    "guide check performance-guide-11.01.rst",
    "guide compare performance-guide-11.01.rst performance-guide-11.01.rst",
    "guide trend boot.time performance-guide-11.01.rst --board am62xx_sk",
    "health",
    "jobs list",
    "jobs show 1",
    "judge compare 13",
    "judge run 13",  # before the list of what it found
    "judge list",
    "judge stats",
    "release list",
    "report 13",
    "results export",
    "results list",
    "results show 13",
    "status",
    "virtual faults",
    "web user list",
)
_IN_PATHS: Final = {"run_id": "13", "metric": "boot.time", "board": "am62x-sk-1", "release": "11.01"}
_OPEN: Final = frozenset(
    {"params", "plan", "provenance", "details", "flows", "parameters"}
)  # objects whose keys are data
_NOT_IN_FILES: Final = {"Release": {"name", "path"}, "BoardType": {"name"}}  # they are the file's own


def names() -> Iterator[str]:
    """Each kind and name."""
    for usage, _, _, options in man_page.all_commands():
        command = " ".join(word for word in usage.split() if word.islower())
        yield f"command {command}"
        yield from (f"option {command} {option.opts[0]}" for option in options)
    yield from (f"exit {code}" for code, _ in man_page.table_rows("Exit codes"))
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    yield from (f"pytest-option {option.names()[0]}" for option in parser.getgroup("boardlab").options)
    for module in _modules(pytest_plugin):
        fixtures = (name for name, value in vars(module).items() if isinstance(value, _FIXTURE))
        yield from (f"pytest-fixture {name}" for name in fixtures)
    yield from (f"metric {metric.name} [{metric.unit}]" for metric in (*ALL, *RATES.values()))
    yield from (f"flag {flag}" for flag in Flag)
    yield from (f"failure {name}" for name in CATALOGUE)
    for line in metric_table.lines():
        family, labels = (cell.strip().replace("`", "") for cell in line.split("|")[1:3])
        if family.startswith("boardlab_"):
            yield f"prometheus {family}{{{labels}}}"
    for path, methods in create(Site()).openapi()["paths"].items():
        yield from (f"http {method.upper()} {path}" for method in methods if path.startswith("/api/"))
    groups = (extensions.SECTIONS, extensions.RAILS, extensions.WRITERS, extensions.GUIDE_RULES)
    yield from (f"entry-point {group}" for group in groups)
    yield from (f"farm.yaml {key}" for key in _keys(Farm))
    yield from (f"metrics.toml {key}" for key in _keys(lab_metrics._File))
    yield from (f"release {key}" for key in _keys(Release))
    yield from (f"board-type {key}" for key in _keys(BoardType))
    yield from _of_environments()
    yield from _of_json()
    for table in Base.metadata.sorted_tables:
        yield from (f"store {table.name}.{column.name}" for column in table.columns)


def text() -> str:
    """The file's content."""
    return "\n".join(sorted(set(names()))) + "\n"


def _of_environments() -> Iterator[str]:
    """Our drivers and resources of labgrid, and their arguments."""
    list(_modules(drivers))
    for cls in (*target_factory.drivers.values(), *target_factory.resources.values()):
        if cls.__module__.startswith(drivers.__name__):
            given = (key.alias or key.name for key in attr.fields(cls) if key.init)
            yield from (f"environment {cls.__name__} {key}" for key in given if key not in {"target", "name"})


def _of_json() -> Iterator[str]:
    """The keys of JSON that commands print and the site serves, of a slower board and of a run with failed attempts."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        database = f"{folder}/results.db"
        with open_store(database) as store:
            nights = Nights(store, board="am62x-sk-1")
            nights.quiet(12)
            nights.run(1.08, image="image 9")
            recorded_run.record(store, virtual=False, cycles=4)
            JobQueue(store, process.identity(), process.has_died).enqueue(ORDER)
        Path("envs").mkdir()
        environment = (ROOT / "envs" / "am62x.yaml").read_text().replace("../strategies", str(ROOT / "strategies"))
        for name in ("env.yaml", "envs/env.yaml"):
            Path(name).write_text(environment)
        Path("console.log").write_text("U-Boot 2023.01\n")
        Path("releases").mkdir()
        Path("releases", "11.01.yaml").write_text("boards: am62xx_sk\n")
        places = {"LAB_DB": database, "BOARDLAB_RUNTIME": f"{folder}/runtime", "HOME": folder}
        quiet = io.StringIO()  # of what the judge says of the slower board
        with (
            mock.patch.dict(os.environ, places),
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
        ):
            cli.main(["guide", "write", "--release", "11.01"])
        for command in _PRINTS_JSON:
            output = io.StringIO()
            with mock.patch.dict(os.environ, places), contextlib.redirect_stdout(output):
                cli.main([*command.split(), "--json"])
            words = " ".join(itertools.takewhile(str.isalpha, command.split()))
            yield from (f"json {words} {key}" for key in _json_keys(json.loads(output.getvalue())))
        site = Site(db=database, runtime=Path(folder, "runtime"), folder=Path(folder))
        with serving(site) as url:
            for path, methods in create(site).openapi()["paths"].items():
                if path.startswith("/api/") and "get" in methods:
                    answer = requests.get(url + path.format(**_IN_PATHS), {"q": "am62x"}, timeout=60)
                    answer.raise_for_status()
                    yield from (f"http-json {path} {key}" for key in _json_keys(answer.json()))


def _json_keys(value: Any, before: str = "") -> Iterator[str]:
    if isinstance(value, list):
        for element in value:
            yield from _json_keys(element, before)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"{before}{key}"
            if not (isinstance(inner, dict) and key in _OPEN):
                yield from _json_keys(inner, f"{before}{key}.")


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules of a package, imported."""
    for module in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{module.name}")


def _keys(record: Any, before: str = "", above: tuple[Any, ...] = ()) -> Iterator[str]:
    """The keys of a file that is read as this record, those of records within it behind a dot."""
    for key in attr.fields(attr.resolve_types(record)):
        name = key.alias or key.name
        if not key.init or name.startswith("_") or name in _NOT_IN_FILES.get(record.__name__, ()):
            continue
        yield f"{before}{name}"
        for inner in _records_in(key.type):
            if inner not in above:
                yield from _keys(inner, f"{before}{name}.", (*above, record))


def _records_in(kind: Any) -> list[Any]:
    if isinstance(kind, type) and attr.has(kind):
        return [kind]
    return [record for argument in typing.get_args(kind) for record in _records_in(argument)]


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
