"""A hundred boards on five hosts, as tools/big_farm.py writes them: read, checked, and made into units and a Buildbot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import big_farm

from lab.farm import buildbot, checks
from lab.farm.config import load
from lab.farm.units import units

HOSTS = [f"lab-{number}" for number in range(1, 6)]


def test_a_hundred_boards_on_five_hosts(tmp_path: Path) -> None:
    big_farm.write(tmp_path, big_farm.described(tmp_path, 100, 5, "/srv/lab"), "am62xx_sk")
    farm = load(tmp_path / "farm.yaml")
    assert Counter(farm.host_of(board) for board in farm.boards) == dict.fromkeys(HOSTS, 20)
    assert max(Counter(board.hub for board in farm.boards).values()) == big_farm.PER_HUB
    assert max(Counter(each.at for each in farm.schedules if each.every == "day").values()) == big_farm.PER_MINUTE
    assert [problem for board in farm.boards[::25] for problem in checks.wrong_board(tmp_path, board)] == []
    assert farm.buildbot is not None
    found = buildbot.described(farm, farm.buildbot, farm.environ)
    assert (len(found["boards"]), len(found["schedules"]), found["hosts"]) == (100, 200, HOSTS)
    assert found["reference"]["host"] == "lab-1"
    for host in HOSTS[1:]:
        assert "boardlab-worker.service" in units(farm, "/etc/boardlab/farm.yaml", host)
