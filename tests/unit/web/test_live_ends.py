"""What is live ends with the session of who looks: logged out, removed, or with another role."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from support.web_people import BOARD, PASSWORDS, Browser, GuardedSite, access, logged_in

from lab.web import console_input, streams
from lab.web.auth import Users
from lab.web.console_input import ConsoleWriter, ConsoleWriters
from lab.web.consoles import ConsolePiece, ConsoleText, LiveConsoles, Viewer

LIMIT_S = 60
MOST_ALIVE = 4  # a minute of a stream
MANY = 50  # pieces


def ended(lines: Iterator[bytes]) -> None:
    """Read a stream to its end; one that stays open is alive again and again."""
    alive = 0
    for line in lines:
        alive += line == b": alive"
        assert alive < MOST_ALIVE


def logs_out(_site: GuardedSite, browser: Browser) -> None:
    assert browser.send("/logout").status_code == 303


def is_removed(site: GuardedSite, _browser: Browser) -> None:
    Users(site.folder / "users.json").remove("vera")


def has_another_role(site: GuardedSite, _browser: Browser) -> None:
    file = site.folder / "users.json"
    file.write_text(file.read_text().replace("viewer", "operator"))


def lets_all_read_the_users(site: GuardedSite, _browser: Browser) -> None:
    file = site.folder / "users.json"
    file.write_text(file.read_text() + "\n")
    file.chmod(0o644)


@pytest.mark.parametrize("ends", [logs_out, is_removed, has_another_role, lets_all_read_the_users])
@pytest.mark.parametrize("path", ["/events/wall", f"/events/rails/{BOARD}"])
def test_a_live_view_ends_with_its_session(
    guarded: GuardedSite, path: str, ends: Callable[[GuardedSite, Browser], None]
) -> None:
    browser = logged_in(guarded.url, "vera")
    with browser.get(path, stream=True) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(b"event: ")
        ends(guarded, browser)
        ended(lines)


def test_a_live_view_with_a_password_ends_with_the_user(guarded: GuardedSite) -> None:
    with requests.get(
        f"{guarded.url}/events/wall", auth=("vera", PASSWORDS["vera"]), stream=True, timeout=LIMIT_S
    ) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(b"event: ")
        Users(guarded.folder / "users.json").remove("vera")
        ended(lines)


def test_who_may_still_look_is_who_asked(guarded: GuardedSite) -> None:
    door = access(guarded.folder)
    cookie = door.log_in("vera", PASSWORDS["vera"]) or ""
    person = door.person({}, cookie, "")
    assert person is not None
    assert door.still(person, {}, cookie, "")
    assert not door.still(person, {}, "", "")


@pytest.mark.parametrize("busy", [True, False])
def test_a_console_is_shown_only_as_long_as_its_reader_may_look(busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STILL_S", 0.0)
    answers = [True, True, False]

    async def look() -> list[Any]:
        viewer, said = Viewer(asyncio.get_running_loop()), []
        for _ in range(MANY if busy else 0):
            viewer.enqueue(ConsolePiece(b"event: text\ndata: {}\n\n"))
        async with asyncio.timeout(LIMIT_S):
            async for each in streams.console(LiveConsoles(), "b", viewer, ConsoleText(), lambda: answers.pop(0)):
                said.append(each)
                await asyncio.sleep(0)  # as the socket takes it
        return said

    said = asyncio.run(look())
    assert answers == []
    given = len([each for each in said if isinstance(each, bytes)])
    assert 0 < given < MANY if busy else given == 0


def test_a_held_console_is_given_back_when_its_writer_may_act_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_input, "LOOK_S", 0.0)
    monkeypatch.setattr(ConsoleWriters, "check", lambda *_: None)
    told: list[str] = []
    given_back = threading.Event()

    class Client:
        def read_event(self, _timeout_s: float) -> None:
            return None

        def close(self) -> None:
            pass

    def released(why: str) -> None:
        told.append(why)
        given_back.set()

    async def hold() -> list[str]:
        answers = [True, False]
        writers = ConsoleWriters(None)  # type: ignore[arg-type]
        writer = ConsoleWriter(Client())  # type: ignore[arg-type]
        stream = writers.stream("b", "olga", writer, released, lambda: answers.pop(0))
        async with asyncio.timeout(LIMIT_S):
            return [each async for each in stream]

    said = asyncio.run(hold())
    assert said[1] == ": held\n\n"
    why = json.loads(said[-1].partition("data: ")[2])["why"]
    assert "olga has logged out" in why
    assert given_back.wait(LIMIT_S)
    assert told == [f"0 bytes; {why}"]
