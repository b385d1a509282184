"""A store that a program asks again and again is the one that is there now."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy.exc

from lab.errors import ConfigurationError, LabTransientError
from lab.results import Store, open_store
from lab.results.database import guard
from lab.results.location import locate
from lab.results.store import SharedStore

AT_ONCE = 20  # a pool of SQLAlchemy has 15 connections unless one says otherwise


def boards(store: Store) -> list[str]:
    with store.snapshot() as seen:
        return [head.board for head in seen.heads()]


def begin(url: str, board: str) -> None:
    with open_store(url) as store:
        store.begin_run("boot", "am62xx_sk", board, "11.01", plan={}, provenance={})


def test_what_others_write_is_seen_and_the_queries_are_kept(database: str) -> None:
    kept = SharedStore()
    begin(database, "a")
    with kept.store_at(database) as first:
        assert boards(first) == ["a"]
    begin(database, "b")
    with kept.store_at(database) as again:
        assert boards(again) == ["a", "b"]
    assert again is first


def test_a_file_that_is_moved_away_is_missed_and_another_in_its_place_is_read(tmp_path: Path) -> None:
    kept, path = SharedStore(), tmp_path / "results.db"
    begin(str(path), "old")
    with kept.store_at(str(path)) as store:
        assert boards(store) == ["old"]
    path.rename(tmp_path / "away.db")
    with pytest.raises(ConfigurationError, match="does not exist"), kept.store_at(str(path)):
        pass
    begin(str(path), "new")
    with kept.store_at(str(path)) as store:
        assert boards(store) == ["new"]


def test_another_database_is_opened_when_it_is_asked_for(tmp_path: Path) -> None:
    kept = SharedStore()
    for name in ("one", "two"):
        begin(str(tmp_path / f"{name}.db"), name)
        with kept.store_at(str(tmp_path / f"{name}.db")) as store:
            assert boards(store) == [name]


def test_what_is_written_while_another_request_is_in_progress_goes_to_the_file_that_is_there_now(
    tmp_path: Path,
) -> None:
    kept, path = SharedStore(), tmp_path / "results.db"
    begin(str(path), "old")
    with kept.store_at(str(path)) as held:
        assert boards(held) == ["old"]
        path.rename(tmp_path / "away.db")
        begin(str(path), "new")
        with kept.store_at(str(path)) as store:
            store.begin_run("boot", "am62xx_sk", "newer", "11.01", plan={}, provenance={})
    with open_store(str(path)) as read:
        assert boards(read) == ["new", "newer"]


def test_many_requests_at_once_wait_for_nothing(database: str) -> None:
    kept = SharedStore()
    begin(database, "a")
    with ExitStack() as requests, open_store(database) as shared:
        for _ in range(AT_ONCE):
            for store in (shared, requests.enter_context(kept.store_at(database))):
                requests.enter_context(store.snapshot()).heads()  # its connection is held from here on


def test_a_program_without_a_free_connection_says_to_try_again(tmp_path: Path) -> None:
    location = locate(str(tmp_path / "results.db"))
    with pytest.raises(LabTransientError, match=r"connection.*try again"), guard(location):
        raise sqlalchemy.exc.TimeoutError


def test_the_store_of_another_database_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SharedStore()
    closed: list[Store] = []
    for name in ("one", "two"):
        begin(str(tmp_path / f"{name}.db"), name)
    monkeypatch.setattr(Store, "close", property(lambda store: lambda: closed.append(store)))
    with kept.store_at(str(tmp_path / "one.db")) as first:
        assert boards(first) == ["one"]
    with kept.store_at(str(tmp_path / "two.db")) as second:
        assert closed == [first]
    with kept.store_at(str(tmp_path / "two.db")) as again:
        assert (again is second, closed) == (True, [first])
