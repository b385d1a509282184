"""A store that a program asks again and again is the one that is there now."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import ConfigurationError
from lab.results import Store, open_store
from lab.results.keptstore import KeptStore, snapshot


def boards(store: Store) -> list[str]:
    with snapshot(store) as seen:
        return [head.board for head in seen.heads()]


def begin(url: str, board: str) -> None:
    with open_store(url) as store:
        store.begin_run("boot", "am62xx_sk", board, "11.01", plan={}, provenance={})


def test_what_others_write_is_seen_and_the_queries_are_kept(database: str) -> None:
    kept = KeptStore()
    begin(database, "a")
    with kept.opened(database) as first:
        assert boards(first) == ["a"]
    begin(database, "b")
    with kept.opened(database) as again:
        assert boards(again) == ["a", "b"]
    assert again is first


def test_a_file_that_is_moved_away_is_missed_and_another_in_its_place_is_read(tmp_path: Path) -> None:
    kept, path = KeptStore(), tmp_path / "results.db"
    begin(str(path), "old")
    with kept.opened(str(path)) as store:
        assert boards(store) == ["old"]
    path.rename(tmp_path / "away.db")
    with pytest.raises(ConfigurationError, match="does not exist"), kept.opened(str(path)):
        pass
    begin(str(path), "new")
    with kept.opened(str(path)) as store:
        assert boards(store) == ["new"]


def test_another_database_is_opened_when_it_is_asked_for(tmp_path: Path) -> None:
    kept = KeptStore()
    for name in ("one", "two"):
        begin(str(tmp_path / f"{name}.db"), name)
        with kept.opened(str(tmp_path / f"{name}.db")) as store:
            assert boards(store) == [name]
