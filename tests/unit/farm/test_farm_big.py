"""A hundred boards on five hosts, as tools/big_farm.py writes them: read, checked, and made into units and a Buildbot."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import big_farm
from attrs import evolve
from labgrid.remote.config import ResourceConfig
from support.facts import missing_facts

from lab.env import envfile
from lab.farm import buildbot
from lab.farm.checks import files
from lab.farm.config import load
from lab.farm.systemd import units
from lab.places import exporter

HOSTS = [f"lab-{number}" for number in range(1, 6)]


def test_a_hundred_boards_on_five_hosts(tmp_path: Path) -> None:
    big_farm.write(tmp_path, big_farm.described(tmp_path, 100, 5, "/srv/lab"), "am62xx_sk")
    farm = load(tmp_path / "farm.yaml")
    assert Counter(farm.host_of(board) for board in farm.boards) == dict.fromkeys(HOSTS, 20)
    assert max(Counter(board.hub for board in farm.boards).values()) == big_farm.PER_HUB
    assert max(Counter(each.at for each in farm.schedules if each.every == "day").values()) == big_farm.PER_MINUTE
    assert list(files.boards(evolve(farm, boards=farm.boards[::25], schedules=[]))) == []
    assert farm.buildbot is not None
    found = buildbot.describe(farm, farm.buildbot, farm.environ)
    assert (len(found["boards"]), len(found["schedules"]), found["hosts"]) == (100, 200, HOSTS)
    assert found["reference"]["host"] == "lab-1"
    for host in HOSTS:
        made = units(farm, "/etc/boardlab/farm.yaml", host)
        assert {
            f"boardlab-{name}.service" for name in ("worker", "export", "rails", "exporter", "console")
        } <= made.keys()
        assert f"farm export {big_farm.EXPORTS} " in made["boardlab-export.service"]
        assert ("boardlab-coordinator.service" in made) is (host == HOSTS[0])


def test_each_board_is_a_place_that_its_host_exports(tmp_path: Path) -> None:
    big_farm.write(tmp_path, big_farm.described(tmp_path, 100, 5, "/srv/lab"), "am62xx_sk")
    farm = load(tmp_path / "farm.yaml")
    exported: dict[str, dict[str, object]] = {}
    for host in HOSTS:
        path = tmp_path / "exports" / f"{host}.yaml"
        exporter.check(path, {})
        exported[host] = ResourceConfig(str(path), {}).data
    made = re.findall(
        r"^place (\S+) (\S+) board=(\S+) type=am62xx_sk$", (tmp_path / "places.sh").read_text(), re.MULTILINE
    )
    assert made == [(board.name, board.host, board.name) for board in farm.boards]
    for board in farm.boards:
        place = envfile.place_of(tmp_path / "envs" / board.env)
        assert exported[board.host][place].keys() == {"console", "power"}, "or a run waits for what nobody exports"
    sockets = [json.dumps(group["console"]["match"]) for groups in exported.values() for group in groups.values()]
    assert max(Counter(sockets).values()) == len(HOSTS), "a socket of a host is one board's"


def test_the_script_makes_what_is_missing_and_leaves_the_rest(tmp_path: Path) -> None:
    """By a labgrid-client that writes down what it is told."""
    big_farm.write(tmp_path, big_farm.described(tmp_path, 3, 1, "/srv/lab"), "am62xx_sk")
    client = tmp_path / "labgrid-client"
    client.write_text(
        '#!/bin/sh\nif [ "$1" = places ]; then printf "%-41s\\n" sk-002; else echo "$LG_COORDINATOR $*" >> "$TOLD"; fi\n'
    )
    client.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TOLD": str(tmp_path / "told")}
    done = subprocess.run(["sh", tmp_path / "places.sh"], env=environ, check=True, capture_output=True, text=True)
    assert (tmp_path / "told").read_text().splitlines() == [
        f"10.0.0.1:20408 -p {name} {words}"
        for name in ("sk-001", "sk-003")
        for words in ("create", f"add-match lab-1/{name}/*", f"set-tags board={name} type=am62xx_sk")
    ]
    assert not missing_facts(done.stdout.splitlines()[0], "sk-001 on lab-1", "board=sk-001", "type=am62xx_sk")
