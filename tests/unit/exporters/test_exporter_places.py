"""A board's labgrid place: who holds it is asked before its power is switched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from labgrid.resource.remote import RemotePlace

from lab.control.place_holders import PlaceHolders
from lab.errors import LabStableError, LabTransientError
from lab.places.coordinator import Coordinator


class Place(RemotePlace):
    """One whose manager has a session, without a coordinator."""

    def __init__(self) -> None:
        self.name = "b1"
        session = SimpleNamespace(get_place=lambda name: SimpleNamespace(name=name))
        self.manager = SimpleNamespace(url="lab:20408", session=session)


@pytest.fixture
def holders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who holds it, each time that it is asked; "?" is a coordinator that does not answer."""
    answers: list[str] = []

    def holder(_self: Coordinator, _name: str) -> str:
        found = answers.pop(0)
        if found == "?":
            raise LabTransientError("silence", failure="coordinator_unreachable")
        return found

    monkeypatch.setattr(Coordinator, "holder", holder)
    return answers


def checked(holders: list[str], *answers: str) -> None:
    holders += answers
    target: Any = SimpleNamespace(resources=[SimpleNamespace(name="a port"), Place()])
    places = PlaceHolders(target)
    while holders:
        places.check()


@pytest.mark.parametrize("answers", [["ci1/alice"] * 3, ["ci1/alice", "?", "ci1/alice"], ["?", "ci1/alice"]])
def test_a_place_that_is_held_by_the_same_is_ours(holders: list[str], answers: list[str]) -> None:
    checked(holders, *answers)


@pytest.mark.parametrize("answers", [["ci1/alice", ""], ["ci1/alice", "?", "ci1/bob"], [""]])
def test_a_place_that_is_anothers_is_not_touched(holders: list[str], answers: list[str]) -> None:
    with pytest.raises(LabStableError, match=r"place b1.*taken away") as raised:
        checked(holders, *answers)
    assert raised.value.failure == "place_lost"


def test_a_board_without_a_place_asks_nobody() -> None:
    target: Any = SimpleNamespace(resources=[])
    PlaceHolders(target).check()
