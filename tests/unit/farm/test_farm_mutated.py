"""A farm.yaml with any mistake in it is read, or refused by one message that names the file: never a traceback."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.atlength import either

from lab.cli.farm import check
from lab.errors import ConfigurationError
from lab.farm.config import load

ROOT = Path(__file__).resolve().parents[3]
BOARD = "am62xx_sk-1"
ENTRY = {"env": "sim-am62x.yaml", "board": BOARD}
WHOLE: dict[str, Any] = {
    "user": "boardlab",
    "directory": str(ROOT),
    "database": "sqlite:////tmp/results.db",
    "artifacts": "file:///tmp/a",
    "coordinator": "127.0.0.1:9",
    "coordinator_host": "lab-1",
    "exports": "exports.yaml",
    "reports": "https://lab.example.org/runs/{run}",
    "documents": "https://docs.lab.example",
    "exporter": {"listen": "127.0.0.1:9870", "web_config": "web.yml"},
    "web": {"listen": "127.0.0.1:9880", "web_config": "web.yml", "users": "users.yml", "name": "lab.example"},
    "virtual": {"types": ["am62xx_sk"], "count": 2, "time_scale": 0.5},
    "pdudaemon": {"program": "pdudaemon", "config": "/etc/pdudaemon.conf", "address": "127.0.0.1:16421"},
    "buildbot": {"program": "buildbot", "parallel": 4, "users": ["lena"], "github": {"repository": "a/b"}},
    "limits": {"power_on_gap": 1, "max_boards": 2, "late_ms": 5},
    "health": {"faults": 3, "window_h": 72, "reference": BOARD, "at": "01:30"},
    "hosts": [{"name": "lab-1", "exporter": "10.0.0.1:9870", "scrape": "10.0.0.1:9870"}],
    "boards": [{"name": BOARD, "env": "sim-am62x.yaml", "host": "lab-1", "hub": "h"}],
    "usb": [{"name": "a", "id_path": "p", "kind": "adapter", "host": "lab-1"}],
    "schedules": [
        {**ENTRY, "name": "nightly", "release": "11.01", "cycles": 3, "at": "02:00", "medium": "sd", "judge": False},
        {**ENTRY, "name": "weekly", "suite": "low_power", "every": "week", "day": "Sun", "mode": "deep_sleep"},
        {**ENTRY, "name": "sections", "sections": ["lmbench"], "repeats": 2},
        {**ENTRY, "name": "new", "every": "release", "release": "newest in releases"},
    ],
}
VALUES: tuple[Any, ...] = (
    *(None, 1, -1, 2**70, 1.5, float("nan"), True, "", "x", "a b", "2026-99", "é\n"),
    *([], {}, [1], [None], [[]], {"a": 1}, {1: 2}, {None: 1}),
)
MISTAKES = either(75, 300)
KEYS: tuple[Any, ...] = (1, None, True, 1.5, "", "x", "a b")


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield (*at, key)
        yield from places(value, (*at, key))


def mutated(seed: int) -> dict[str, Any]:
    """The whole file with one mistake: a value, a key or an entry that is another, is missing or is new."""
    dice, document = random.Random(seed), copy.deepcopy(WHOLE)
    *way, last = dice.choice(list(places(document)))
    parent: Any = document
    for key in way:
        parent = parent[key]
    value = copy.deepcopy(dice.choice(VALUES))
    match dice.randrange(4):
        case 0:
            parent[last] = value
        case 1:
            del parent[last]
        case 2 if isinstance(parent, dict):
            parent[dice.choice(KEYS)] = parent.pop(last)
        case _ if isinstance(parent, dict):
            parent[dice.choice(KEYS)] = value
        case _:
            parent.append(value)
    return document


@pytest.mark.longer
def test_a_file_with_a_mistake_is_read_or_refused_with_its_name(tmp_path: Path) -> None:
    path, refused = tmp_path / "farm.yaml", list[str]()
    for seed in range(MISTAKES):
        path.write_text(yaml.safe_dump(mutated(seed), allow_unicode=True))
        try:
            load(path)
        except ConfigurationError as error:
            refused.append(str(error))
    assert len(refused) > MISTAKES // 2, "most of the mistakes are ones"
    assert [said for said in refused if str(path) not in said or len(said.splitlines()) > 1] == []


@pytest.mark.parametrize("key", ["1", "null", "true", "1.5", "2026-01-01"])
@pytest.mark.parametrize("where", ["{}: x", "web: {{{}: x}}", "hosts: [{{name: a, {}: x}}]", "schedules: [{{{}: x}}]"])
def test_a_key_that_is_no_text_is_named(tmp_path: Path, key: str, where: str) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(where.format(key))
    with pytest.raises(ConfigurationError, match=r"farm\.yaml.*text.*quotes") as refused:
        check(path, here=True)
    assert str(yaml.safe_load(key)) in str(refused.value) or repr(yaml.safe_load(key)) in str(refused.value)
