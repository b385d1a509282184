"""The store knows what is on which medium of which board, also of a write that was killed."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from lab.provision.history import NewProvision, ProvisionBook
from lab.results import open_store


def new(medium: str, release: str, board: str = "b-1") -> NewProvision:
    return NewProvision("some_board", board, medium, release, "c" * 64, "a-way", "lena", 7)


def test_the_latest_write_of_each_medium_says_what_is_on_it(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        first = book.begin(new("sd", "11.00"))
        book.note_written(first, "d" * 64, "sampled", 5_000_000_000)
        second = book.begin(new("sd", "11.01"))
        other = book.begin(new("emmc", "11.00"))
        book.begin(new("sd", "9.9", board="b-2"))
        book.note_written(second, "e" * 64, "full", 12)
        book.note_booted(second, {"kernel": "Linux version 6.12"})
        book.note_failed(other, "bad block")
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


def test_a_release_that_was_refused_on_one_medium_is_on_none_of_the_same_try(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        ids = {medium: book.begin(new(medium, "11.01")) for medium in ("sd", "emmc", "ospi")}
        others = [book.begin(new("nand", "11.00")), book.begin(evolve(new("usb", "11.01"), job_id=6))]
        others += [book.begin(new("sd", "11.01", board="b-2"))]
        for each in (ids["sd"], ids["emmc"], *others):
            book.note_written(each, "d" * 64, "full", 1)
        book.note_booted(ids["sd"], {"kernel": "Linux version 6.12"})
        book.note_failed(ids["ospi"], "bad block")
        book.note_refused(ids["emmc"], "[release_mismatch] another kernel")
        found = {(each.board, each.medium): (each.state, each.message) for each in book.latest()}
    mismatch = ("failed", "[release_mismatch] another kernel")
    assert found == {
        ("b-1", "sd"): mismatch,
        ("b-1", "emmc"): mismatch,
        ("b-1", "ospi"): ("failed", "bad block"),
        ("b-1", "nand"): ("written", ""),
        ("b-1", "usb"): ("written", ""),
        ("b-2", "sd"): ("written", ""),
    }


def test_a_medium_holds_a_release_once_it_has_booted(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        number = book.begin(evolve(new("sd", "11.01"), identity={"build_id": "^7$"}))
        book.note_written(number, "d" * 64, "full", 1)
        assert not book.current("b-1")["sd"].is_on_it
        book.note_booted(number, {})
        found = book.current("b-1")["sd"]
    assert (found.is_on_it, dict(found.identity)) == (True, {"build_id": "^7$"})


def test_a_write_that_was_killed_leaves_nobody_in_belief(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        book.note_written(book.begin(new("sd", "11.00")), "d" * 64, "full", 1)
        book.begin(new("sd", "11.01"))  # and no more
    with open_store(str(tmp_path / "r.db")) as store:
        found = ProvisionBook(store).current("b-1")["sd"]
        assert (found.state, found.is_on_it) == ("writing", False)


def test_the_tries_of_boot_partitions_are_known_until_a_person_forgets_them(tmp_path: Path) -> None:
    def to(partition: str, board: str = "b-1") -> NewProvision:
        return evolve(new("emmc", "11.01", board), boots=partition, spare={"bus": [1, 0, 0]} if partition else {})

    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        for each in (to("boot1"), to(""), to("boot0", "b-2"), to("boot0"), new("sd", "11.01")):
            book.begin(each)
        assert [(each.boots, dict(each.spare)) for each in book.tries("b-1", "emmc")] == [
            ("boot0", {"bus": [1, 0, 0]}),
            ("boot1", {"bus": [1, 0, 0]}),
        ]
        book.forget("b-1", "emmc")
        assert book.tries("b-1", "emmc") == []
        book.begin(to("boot1"))
        assert [each.boots for each in book.tries("b-1", "emmc")] == ["boot1"]


def test_what_a_person_wrote_by_hand_is_not_what_was_provisioned(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        book.note_written(book.begin(new("sd", "11.00")), "d" * 64, "full", 1)
        book.note_written(book.begin(new("sd", "11.01")), "d" * 64, "full", 1)
        assert book.forget("b-1", "sd")
        assert book.current("b-1") == {}
        assert not book.forget("b-1", "emmc")
