"""A release is put on a board whole, in the record, and only where it may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.facts import missing_facts
from support.playedwriters import PlayedBoard, PlayedWriter, a_file

from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision.errors import (
    ImageTooLargeError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    ReleaseMismatchError,
    TargetRefusedError,
    WrongImageForBoardError,
)
from lab.provision.history import NewProvision, ProvisionBook
from lab.provision.provisioning import Provisioner, content_digest, first_boot
from lab.provision.release import Release
from lab.provision.releasefile import load
from lab.provision.writer import WriteProgress
from lab.results import open_store

KERNEL = "Linux version 6.12.34-ti (a@b) #1 SMP"
SAYS = {"kernel": KERNEL, "uboot": "U-Boot 2025.01", "build_id": "20261122"}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    boot = [
        {"name": name, **a_file(tmp_path, name, name.encode() * 100), "to": {"hardware": "boot0", "offset": offset}}
        for name, offset in (("tiboot3.bin", 0), ("tispl.bin", 0x80000), ("u-boot.img", 0x280000))
    ]
    root = {"name": "rootfs.ext4", **a_file(tmp_path, "rootfs.ext4", b"root" * 5000), "to": {"partition": 2}}
    return {
        "boards": ["some_board"],
        "media": {"sd": {"image": a_file(tmp_path, "all.wic", b"w" * 9000)}, "emmc": {"parts": [*boot, root]}},
        "identity": {"kernel": r"Linux version 6\.12\.34-ti ", "build_id": "^20261122$"},
    }


@pytest.fixture
def release(tmp_path: Path, document: dict[str, Any]) -> Release:
    return written(tmp_path, document)


def written(folder: Path, document: dict[str, Any]) -> Release:
    path = folder / "11.01.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[ProvisionBook]:
    with open_store(str(tmp_path / "r.db")) as store:
        yield ProvisionBook(store)


def a_board(**says: str) -> PlayedBoard:
    said = {**SAYS, **says}
    return PlayedBoard({"sd": PlayedWriter(), "emmc": PlayedWriter()}, {"sd": said, "emmc": said})


def putting(release: Release, book: ProvisionBook | None, *media: str, report: Any = lambda _p: None) -> Provisioner:
    return Provisioner(release, media or ("sd", "emmc"), report, lambda _line: None, book, job_id=3, person="lena")


def test_all_media_are_written_read_back_booted_and_recorded(release: Release, book: ProvisionBook) -> None:
    board = a_board()
    board.played["emmc"].method = "crc32"
    seen: list[WriteProgress] = []
    done = putting(release, book, report=seen.append).put(board)
    assert list(board.played["emmc"].medium) == ["rootfs.ext4", "u-boot.img", "tispl.bin", "tiboot3.bin"]
    assert board.boots == ["sd", "emmc"]
    assert [writer.switched for writer in board.played.values()] == [["sd"], ["emmc"]]
    assert [each.software["kernel"] for each in done] == [KERNEL, KERNEL]
    found = book.current("b-1")
    assert {medium: (each.release, each.state, each.method) for medium, each in found.items()} == {
        "sd": ("11.01", "booted", "full"),
        "emmc": ("11.01", "booted", "crc32"),
    }
    assert found["sd"].content == content_digest(release.media["sd"])
    assert (found["sd"].job_id, found["sd"].person, dict(found["sd"].software)["uboot"]) == (
        3,
        "lena",
        "U-Boot 2025.01",
    )
    assert sum(each.done for each in seen) > 0


def test_nothing_is_written_where_one_medium_may_not_be(release: Release, book: ProvisionBook) -> None:
    board = a_board()
    board.played["emmc"].room = 10
    with pytest.raises(ImageTooLargeError):
        putting(release, book).put(board)
    assert board.played["sd"].medium == {}
    assert book.current("b-1") == {}


@pytest.mark.parametrize(
    ("change", "security", "media", "error", "says"),
    [
        ({"boards": ["another"]}, "", ("sd",), WrongImageForBoardError, "the board is a some_board"),
        ({"security": "hs-fs"}, "gp", ("sd",), WrongImageForBoardError, "the env says gp"),
        ({"security": "hs-fs"}, "", ("sd",), WrongImageForBoardError, "add `security: hs-fs`"),
        ({}, "hs-se", ("sd",), WrongImageForBoardError, "the env says hs-se"),
        ({}, "", ("ospi",), ConfigurationError, "has nothing for ospi"),
    ],
)
def test_a_release_for_something_else_is_refused_before_the_first_byte(
    tmp_path: Path,
    document: dict[str, Any],
    book: ProvisionBook,
    change: dict[str, Any],
    security: str,
    media: tuple[str, ...],
    error: type[BoardlabError],
    says: str,
) -> None:
    board = a_board()
    board.security = security
    with pytest.raises(error, match=says):
        putting(written(tmp_path, {**document, **change}), book, *media).put(board)
    assert board.played["sd"].medium == {}
    assert book.current("b-1") == {}


def test_a_medium_that_nothing_can_write_is_refused(release: Release) -> None:
    board = a_board()
    del board.played["emmc"]
    with pytest.raises(TargetRefusedError, match=r"nothing.*write emmc"):
        putting(release, None).plans(board)


def test_a_write_that_breaks_is_recorded_without_its_secrets(release: Release, book: ProvisionBook) -> None:
    board = a_board()
    board.played["emmc"].breaks = "tispl.bin"
    with pytest.raises(MediaWriteFailedError):
        putting(release, book).put(board)
    found = book.current("b-1")
    assert (found["sd"].state, found["emmc"].state) == ("written", "failed")
    assert not missing_facts(found["emmc"].message, "media_write_failed", "http://me:***@there/")
    assert "tiboot3.bin" not in board.played["emmc"].medium
    assert board.boots == []
    board.played["emmc"].breaks = ""
    putting(release, book).put(board)
    assert book.current("b-1")["emmc"].state == "booted"


@pytest.mark.parametrize(
    ("says", "named"),
    [
        ({"kernel": "Linux version 6.6.1 "}, "kernel's version line is 'Linux version 6.6.1'"),
        ({"build_id": ""}, "BUILD_ID"),
    ],
)
def test_what_boots_is_compared_with_the_file(
    release: Release, book: ProvisionBook, says: dict[str, str], named: str
) -> None:
    with pytest.raises(ReleaseMismatchError, match=named) as caught:
        putting(release, book, "sd").put(a_board(**says))
    assert caught.value.failure == "release_mismatch"
    assert book.current("b-1")["sd"].state == "failed"


@pytest.mark.parametrize("wrong", ["sd", "emmc"])
def test_a_release_that_is_refused_on_one_medium_is_on_none_of_them(
    release: Release, book: ProvisionBook, wrong: str
) -> None:
    board = a_board()
    board.says = {**board.says, wrong: {**SAYS, "kernel": "Linux version 6.6.1 "}}
    with pytest.raises(ReleaseMismatchError):
        putting(release, book).put(board)
    found = book.current("b-1")
    assert [found[medium].state for medium in ("sd", "emmc")] == ["failed", "failed"]
    assert {f"on {wrong}" in each.message for each in found.values()} == {True}


class Killed(BaseException):
    """The end of a process, after which it records nothing."""


def killed_before_the_boot(release: Release, book: ProvisionBook) -> None:
    """Put a release on both media, and end between the read-back and the first boot."""

    def killed(*_: object) -> None:
        assert {each.state for each in book.current("b-1").values()} == {"written"}
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlayedBoard, "booted", killed)
        patch.setattr(ProvisionBook, "note_failed", lambda *_: None)
        with pytest.raises(Killed):
            putting(release, book).put(a_board())


def test_the_first_boot_of_a_written_medium_is_compared_with_its_release(
    release: Release, book: ProvisionBook
) -> None:
    killed_before_the_boot(release, book)
    board, lines = a_board(), list[str]()
    first_boot(board, book.current("b-1")["emmc"], book, lines.append)
    found = book.current("b-1")
    assert (board.boots, found["emmc"].state, found["sd"].state) == (["emmc"], "booted", "written")
    assert dict(found["emmc"].software) == {"uboot": SAYS["uboot"], "kernel": KERNEL}
    assert any("11.01" in line and "emmc" in line for line in lines)


@pytest.mark.parametrize("says", [{"kernel": "Linux version 6.6.1 "}, {"build_id": "7"}])
def test_a_written_medium_that_boots_something_else_is_refused_with_its_try(
    release: Release, book: ProvisionBook, says: dict[str, str]
) -> None:
    killed_before_the_boot(release, book)
    with pytest.raises(ReleaseMismatchError, match="on emmc"):
        first_boot(a_board(**says), book.current("b-1")["emmc"], book, lambda _line: None)
    assert {each.state for each in book.current("b-1").values()} == {"failed"}


def test_a_written_medium_whose_boot_failed_is_compared_at_the_next_one(release: Release, book: ProvisionBook) -> None:
    killed_before_the_boot(release, book)

    def hangs(_board: PlayedBoard, _medium: str, _questions: dict[str, str]) -> dict[str, str]:
        raise BoardTransientError("silent", failure="silent")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlayedBoard, "booted", hangs)
        with pytest.raises(BoardTransientError):
            first_boot(a_board(), book.current("b-1")["sd"], book, lambda _line: None)
    assert book.current("b-1")["sd"].state == "written"


def test_a_record_without_an_identity_says_to_provision_again(book: ProvisionBook) -> None:
    number = book.begin(NewProvision("some_board", "b-1", "sd", "11.01", "c", "way"))
    book.note_written(number, "d" * 64, "full", 1)
    board = a_board()
    with pytest.raises(ConfigurationError, match=r"11\.01 .*b-1.*medium sd"):
        first_boot(board, book.current("b-1")["sd"], book, lambda _line: None)
    assert board.boots == []


def test_verifying_alone_writes_nothing_and_sees_what_was_changed(release: Release, book: ProvisionBook) -> None:
    board = a_board()
    putting(release, book).put(board)
    before = book.current("b-1")
    board.boots.clear()
    assert [each.plan.target.medium for each in putting(release, book).verify(board)] == ["sd", "emmc"]
    board.played["sd"].medium["all.wic"] = b"else"
    with pytest.raises(MediaVerifyFailedError, match=r"b-1.*nothing was written"):
        putting(release, book).verify(board)
    assert (book.current("b-1"), board.boots) == (before, [])
    assert [writer.switched for writer in board.played.values()] == [["sd"], ["emmc"]], "of the write before"


def test_the_digest_of_a_content_is_of_what_goes_where_and_not_of_where_it_lies(
    tmp_path: Path, document: dict[str, Any], release: Release
) -> None:
    (tmp_path / "moved.wic").write_bytes(b"w" * 9000)
    document["media"]["sd"]["image"]["source"] = "moved.wic"
    document["media"]["emmc"]["parts"][1]["to"]["offset"] = 0x100000
    other = written(tmp_path, document)
    assert content_digest(other.media["sd"]) == content_digest(release.media["sd"])
    assert content_digest(other.media["emmc"]) != content_digest(release.media["emmc"])
