"""The store knows what is on which medium of which board, also of a write that was killed."""

from __future__ import annotations

from pathlib import Path

from lab.results import open_store
from lab.results.provisions import NewProvision, ProvisionBook


def new(medium: str, release: str, board: str = "b-1") -> NewProvision:
    return NewProvision("some_board", board, medium, release, "c" * 64, "a-way", "lena", 7)


def test_the_latest_write_of_each_medium_says_what_is_on_it(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        first = book.begin(new("sd", "11.00"))
        book.written(first, "d" * 64, "sampled", 5_000_000_000)
        second = book.begin(new("sd", "11.01"))
        other = book.begin(new("emmc", "11.00"))
        book.begin(new("sd", "9.9", board="b-2"))
        book.written(second, "e" * 64, "full", 12)
        book.booted(second, {"kernel": "Linux version 6.12"})
        book.failed(other, "bad block")
        found = book.current("b-1")
        assert {medium: (each.release, each.state) for medium, each in found.items()} == {
            "sd": ("11.01", "booted"),
            "emmc": ("11.00", "failed"),
        }
        sd = found["sd"]
        assert (sd.digest, sd.method, sd.bytes, dict(sd.software)) == (
            "e" * 64,
            "full",
            12,
            {"kernel": "Linux version 6.12"},
        )
        assert (found["emmc"].message, found["emmc"].is_on_it) == ("bad block", False)
        assert [(each.board, each.medium) for each in book.latest()] == [("b-1", "emmc"), ("b-1", "sd"), ("b-2", "sd")]


def test_a_write_that_was_killed_leaves_nobody_in_belief(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        book.written(book.begin(new("sd", "11.00")), "d" * 64, "full", 1)
        book.begin(new("sd", "11.01"))  # and no more
    with open_store(str(tmp_path / "r.db")) as store:
        found = ProvisionBook(store).current("b-1")["sd"]
        assert (found.state, found.is_on_it) == ("writing", False)


def test_what_a_person_wrote_by_hand_is_not_what_was_provisioned(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        book.written(book.begin(new("sd", "11.00")), "d" * 64, "full", 1)
        book.written(book.begin(new("sd", "11.01")), "d" * 64, "full", 1)
        assert book.forget("b-1", "sd")
        assert book.current("b-1") == {}
        assert not book.forget("b-1", "emmc")
