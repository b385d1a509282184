"""An eMMC's boot partitions and how it boots, from Linux: this host's shell, and an `mmc` and a `dd` that keep to what an eMMC keeps to."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from support.atlength import either
from support.facts import missing_facts
from support.playedwriters import PlayedBoard
from test_linux_writer import DEVICE, TARGET, PlayedLinux, image, writer

from lab.errors import BoardlabError, BoardTransientError, ConfigurationError
from lab.provision.errors import (
    ExtCsdNotSetError,
    ImageTooLargeError,
    MediaMissingError,
    MediaVerifyFailedError,
    MediaWriteFailedError,
    ReleaseMismatchError,
)
from lab.provision.history import NewProvision, ProvisionBook
from lab.provision.provisioning import Provisioner, content_digest
from lab.provision.release import Content, Expected, ExtCsd, Part, PartPlace, Release
from lab.provision.writers import linuxemmc
from lab.provision.writers.command import Command
from lab.provision.writers.emmc_boot_partitions import from_linux
from lab.results import open_store

SIZE = 64 * 1024
MMC = r"""#!/bin/sh
cd {folder}
case "$1 $2" in
'extcsd read')
    [ -e no-answer ] && { echo 'Could not read EXT_CSD from /dev/mmcblk0' >&2; exit 1; }
    echo 'H/W reset function [RST_N_FUNCTION]: 0x00'
    printf 'Boot configuration bytes [PARTITION_CONFIG: 0x%02x]\n' $(cat partition_config)
    echo ' Boot Partition 1 enabled'
    printf 'Boot bus Conditions [BOOT_BUS_CONDITIONS: 0x%02x]\n' $(cat bus) ;;
'bootpart enable') [ -e stuck ] || echo $(($4 << 6 | $3 << 3)) > partition_config ;;
'bootbus set')
    case $3 in single_backward) mode=0 ;; single_hs) mode=1 ;; dual) mode=2 ;; *) exit 1 ;; esac
    case $4 in x1) reset=0 ;; retain) reset=1 ;; *) exit 1 ;; esac
    case $5 in x1) width=0 ;; x4) width=1 ;; x8) width=2 ;; *) exit 1 ;; esac
    [ -e bus-stuck ] || echo $((mode << 3 | reset << 2 | width)) > bus ;;
*) echo "mmc: no command $1 $2" >&2; exit 1 ;;
esac
"""
DD = r"""#!/bin/sh
for word in "$@"; do
    case $word in of=*boot[01])
        [ "$(cat {folder}/sys/mmcblk0${{word##*card}}/force_ro)" = 0 ] || {{ echo "dd: error writing '$word': Operation not permitted" >&2; exit 1; }} ;;
    esac
done
exec /bin/dd "$@"
"""


class PlayedEmmc(PlayedLinux):
    """With boot partitions, an `mmc` and a `dd`.

    Attributes:
        spoils: one bit of what this boot partition is given is another. cut_at: the power goes with the command of that number.
        late: it goes when that is done, and before it answers.
    """

    spoils = ""
    cut_at = 1 << 30
    late = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        for name in ("boot0", "boot1"):
            (folder / f"card{name}").write_bytes(b"\x5a" * SIZE)
            (folder / "sys" / f"mmcblk0{name}").mkdir(parents=True)
            (folder / "sys" / f"mmcblk0{name}" / "size").write_text(f"{SIZE // 512}\n")
            (folder / "sys" / f"mmcblk0{name}" / "force_ro").write_text("1\n")
        (folder / "partition_config").write_text("72\n")  # 0x48: it boots from boot0
        (folder / "bus").write_text("0\n")
        (folder / "bin").mkdir()
        for name, text in (("mmc", MMC.replace("{folder}", str(folder))), ("dd", DD.format(folder=folder))):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)

    def run(self, cmd: str, timeout: float = 0) -> tuple[list[str], list[str], int]:
        """See `PlayedLinux`."""
        cut = len(self.typed) - self.cut_at
        if cut > 0 or (cut == 0 and not self.late):
            raise BoardTransientError("it did not end", failure="linux_timeout")
        here = cmd if cmd.startswith(("cat /proc", f"cat /sys/class/block/{DEVICE.rpartition('/')[2]}/")) else None
        answer = super().run(here or cmd.replace("/sys/class/block", str(self.folder / "sys")), timeout)
        if self.spoils and f"of={DEVICE}{self.spoils}" in cmd:
            with (self.folder / f"card{self.spoils}").open("r+b") as file:
                first = file.read(1)
                file.seek(0)
                file.write(bytes([first[0] ^ 1]))
        if cut == 0:
            raise BoardTransientError("it did not end", failure="linux_timeout")
        return answer

    def boots(self) -> tuple[int, int]:
        """PARTITION_CONFIG and BOOT_BUS_CONDITIONS."""
        return int((self.folder / "partition_config").read_text()), int((self.folder / "bus").read_text())

    def boot_area(self, number: int) -> bytes:
        """What lies in a boot partition."""
        return (self.folder / f"cardboot{number}").read_bytes()

    def locks(self) -> set[str]:
        """Of both boot partitions."""
        return {path.read_text().strip() for path in self.folder.glob("sys/*/force_ro")}


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedEmmc:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return PlayedEmmc(tmp_path)


def content(folder: Path, *, count: int = 700, extcsd: ExtCsd | None = None) -> tuple[Content, bytes, bytes]:
    first, second = os.urandom(count), os.urandom(900)
    parts = []
    for name, data, offset in (("tiboot3.bin", first, 0), ("tispl.bin", second, 0x4000)):
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        parts.append(
            Part(name=name, source=str(folder / name), sha256=digest, to=PartPlace(offset=offset, hardware="boot0"))
        )
    return Content(None, parts, extcsd or ExtCsd([1, 1, 1], [2, 0, 0])), first, second


def test_the_spare_boot_partition_is_written_and_the_emmc_switched_to_it_last(
    board: PlayedEmmc, tmp_path: Path
) -> None:
    given, first, second = content(tmp_path)
    chosen, kept, user = from_linux(writer(board, tmp_path)), board.boot_area(0), board.card.read_bytes()
    plan = chosen.plan(given, TARGET)
    (note,) = plan.notes
    assert not missing_facts(note, "to boot1", "boot0 keeps")
    chosen.write(plan, lambda _progress: None)
    assert chosen.verify(plan).bytes == len(first) + len(second)
    assert board.boots() == (0x48, 0)
    chosen.switch(plan)
    assert board.boots() == (0x50, 2)
    assert board.boot_area(1)[: len(first)] == first
    assert board.boot_area(1)[0x4000 : 0x4000 + len(second)] == second
    assert (board.boot_area(0), board.card.read_bytes(), board.locks()) == (kept, user, {"1"})
    written = [command for command in board.typed if "dd if=/run" in command]
    assert ["boot1" in command for command in written] == [True, True]
    assert "seek=0" in written[-1], "the first stage last"
    assert board.typed.index(written[-1]) < next(n for n, each in enumerate(board.typed) if "bootpart enable" in each)


def put(
    board: PlayedEmmc,
    folder: Path,
    given: Content,
    book: ProvisionBook | None = None,
    *,
    only_read: bool = False,
    kernel: str = "Linux version 6.12",
) -> list[str]:
    """One `lab provision` of the eMMC; when its session began and ended, and when it was booted."""
    done: list[str] = []

    def begin() -> PlayedEmmc:
        done.append("begin")
        return board

    chosen = from_linux(evolve(writer(board, folder), begin=begin, end=lambda: done.append("end")))
    played: dict[str, Any] = {"emmc": chosen}
    there = PlayedBoard(played, {"emmc": {"kernel": kernel}}, boots=done)
    putting = Provisioner(
        Release("11.01", ["some_board"], {"emmc": given}, Expected(kernel="Linux version 6")),
        ["emmc"],
        lambda _progress: None,
        lambda _line: None,
        book,
    )
    (putting.verify if only_read else putting.put)(there)
    return done


def test_what_was_written_wrong_is_never_switched_to_and_the_next_try_writes_it_again(
    board: PlayedEmmc, tmp_path: Path
) -> None:
    given, first, _ = content(tmp_path)
    kept, board.spoils = board.boot_area(0), "boot1"
    for _ in range(2):
        with pytest.raises(MediaVerifyFailedError, match="read back"):
            put(board, tmp_path, given)
        assert (board.boots(), board.boot_area(0)) == ((0x48, 0), kept)
        assert board.boot_area(1)[1 : len(first)] == first[1:]
    assert not any("bootpart" in command or "bootbus set" in command for command in board.typed)
    board.spoils = ""
    done = put(board, tmp_path, given)
    assert done[-2:] == ["end", "emmc"], "it is booted after the session"
    assert (board.boots(), board.boot_area(0), board.boot_area(1)[: len(first)]) == ((0x50, 2), kept, first)


def test_what_boots_something_else_is_switched_back_from_its_bus_too(board: PlayedEmmc, tmp_path: Path) -> None:
    given, *_ = content(tmp_path)
    kept = board.boot_area(0)
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        with pytest.raises(ReleaseMismatchError, match=r"emmc boots from boot0"):
            put(board, tmp_path, given, book, kernel="Linux version 5.10")
        assert (board.boots(), board.boot_area(0)) == ((0x48, 0), kept)
        record = book.current("b-1")["emmc"]
        assert (record.state, record.boots, record.kept) == ("failed", "boot1", "boot0")


def test_what_was_left_with_what_did_not_boot_is_switched_back_before_it_is_written(
    board: PlayedEmmc, tmp_path: Path
) -> None:
    given, *_ = content(tmp_path)
    kept = board.boot_area(0)
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        (tmp_path / "partition_config").write_text(f"{0x50}\n")
        book.begin(NewProvision("some_board", "b-1", "emmc", "11.01", "c", "way", boots="boot1", kept="boot0"))
        put(board, tmp_path, given, book)
        assert (board.boots(), board.boot_area(0), book.current("b-1")["emmc"].state) == ((0x50, 2), kept, "booted")
    switched = [n for n, command in enumerate(board.typed) if "bootpart enable" in command]
    first = next(n for n, command in enumerate(board.typed) if "of=" in command)
    assert "enable 1 1" in board.typed[switched[0]]
    assert "enable 2 1" in board.typed[switched[1]]
    assert switched[0] < first < switched[1]


def test_the_bus_goes_back_to_that_on_record_and_not_to_that_of_what_did_not_boot(
    board: PlayedEmmc, tmp_path: Path
) -> None:
    given, *_ = content(tmp_path)
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        (tmp_path / "bus").write_text("1\n")
        with pytest.raises(ReleaseMismatchError):
            put(board, tmp_path, given, book, kernel="Linux version 5.10")
        assert board.boots() == (0x48, 1)
        (tmp_path / "partition_config").write_text(f"{0x50}\n")  # as if the switch back had failed
        (tmp_path / "bus").write_text("2\n")
        with pytest.raises(ReleaseMismatchError, match=r"what was written now$"):
            put(board, tmp_path, given, book, kernel="Linux version 5.10")
        assert board.boots() == (0x48, 1)
        (tmp_path / "partition_config").write_text(f"{0x50}\n")
        (tmp_path / "cardboot1").write_bytes(os.urandom(SIZE))
        put(board, tmp_path, given, book)
        assert (board.boots()[0], book.current("b-1")["emmc"].kept) == (0x48, "boot1"), (
            "somebody put another one there"
        )


def test_the_record_is_of_the_release_also_where_it_goes_to_the_other_partition(
    board: PlayedEmmc, tmp_path: Path
) -> None:
    given, *_ = content(tmp_path)
    with open_store(str(tmp_path / "r.db")) as store:
        book = ProvisionBook(store)
        put(board, tmp_path, given, book)
        found = book.current("b-1")["emmc"]
    assert (board.boots()[0], found.state, found.content) == (0x50, "booted", content_digest(given))


def test_reading_back_alone_reads_what_boots_and_switches_nothing(board: PlayedEmmc, tmp_path: Path) -> None:
    given, *_ = content(tmp_path)
    put(board, tmp_path, given)
    before, typed = (board.boots(), board.boot_area(0), board.boot_area(1)), len(board.typed)
    assert put(board, tmp_path, given, only_read=True)[-1] == "end"
    assert not any(" set " in each or "enable" in each or "of=" in each for each in board.typed[typed:])
    (tmp_path / "cardboot1").write_bytes(bytes(SIZE))
    with pytest.raises(MediaVerifyFailedError, match="read back"):
        put(board, tmp_path, given, only_read=True)
    assert (board.boots(), board.boot_area(0)) == before[:2]


@pytest.mark.longer
@pytest.mark.parametrize("late", [False, True])
def test_a_power_cut_at_each_step_leaves_what_boots_and_the_next_try_does_it(
    board: PlayedEmmc, tmp_path: Path, late: bool
) -> None:
    given, first, second = content(tmp_path)

    def is_new() -> bool:
        return (board.boot_area(1)[: len(first)], board.boot_area(1)[0x4000:][: len(second)]) == (first, second)

    kept, old = board.boot_area(0), board.boot_area(1)
    put(board, tmp_path, given)
    commands = list(board.typed)
    begin = next(number for number, each in enumerate(commands) if f"of={DEVICE}boot1" in each)
    ends = set()
    for cut in sorted({*range(begin + late, len(commands), either(2, 1)), len(commands) - 1}):
        (tmp_path / "partition_config").write_text("72\n")
        (tmp_path / "bus").write_text("0\n")
        (tmp_path / "cardboot1").write_bytes(old)
        board.typed, board.cut_at, board.late = [], cut, late
        with pytest.raises(BoardlabError):
            put(board, tmp_path, given)
        partition, _ = board.boots()
        ends.add(partition)
        assert board.boot_area(0) == kept
        assert partition == 0x48 or is_new(), commands[cut]
        board.cut_at = 1 << 30
        put(board, tmp_path, given)
        assert board.boots() == (0x98 - partition, 2), "it goes to the partition that is not booted from"
        assert board.boot_area(0 if partition == 0x50 else 1)[: len(first)] == first
        (tmp_path / "cardboot0").write_bytes(kept)
    assert ends == {0x48, 0x50}


def test_an_emmc_that_does_not_take_it_is_told(board: PlayedEmmc, tmp_path: Path) -> None:
    given, *_ = content(tmp_path)
    (tmp_path / "stuck").touch()
    with pytest.raises(ExtCsdNotSetError, match=r"PART.* 0x50.*0x48: .*eMMC"):
        put(board, tmp_path, given)
    assert board.boots() == (0x48, 2)


def test_an_emmc_that_does_not_take_its_bus_keeps_its_partition(board: PlayedEmmc, tmp_path: Path) -> None:
    given, *_ = content(tmp_path)
    (tmp_path / "bus-stuck").touch()
    with pytest.raises(ExtCsdNotSetError, match=r"BOOT_BUS.* 0x02.*0x00"):
        put(board, tmp_path, given)
    assert board.boots() == (0x48, 0)
    assert not any("bootpart" in command for command in board.typed)


def test_a_board_that_cannot_be_asked_what_it_boots_from_is_let_go(board: PlayedEmmc, tmp_path: Path) -> None:
    given, *_ = content(tmp_path)
    (tmp_path / "bin" / "mmc").unlink()
    ended: list[str] = []
    chosen = from_linux(evolve(writer(board, tmp_path), end=lambda: ended.append("end")))
    with pytest.raises(ConfigurationError, match="no program mmc"):
        chosen.plan(given, TARGET)
    assert ended


def test_what_cannot_be_is_refused_before_the_first_byte(board: PlayedEmmc, tmp_path: Path) -> None:
    chosen = writer(board, tmp_path)
    with pytest.raises(ImageTooLargeError, match="boot0 has 0x10000 bytes"):
        chosen.plan(content(tmp_path, count=SIZE + 1)[0], TARGET)
    given, *_ = content(tmp_path)
    with pytest.raises(ConfigurationError, match="the width is 0 to 2"):
        chosen.plan(evolve(given, extcsd=ExtCsd([1, 1, 1], [3, 0, 0])), TARGET)
    with pytest.raises(ConfigurationError, match="extcsd is an eMMC's"):
        evolve(chosen, device="/dev/nvme0n1").plan(
            Content(image(tmp_path, bytes(512)).image, [], ExtCsd([1, 1, 1])), TARGET
        )
    (tmp_path / "no-answer").touch()
    with pytest.raises(MediaWriteFailedError, match="Could not read EXT_CSD"):
        chosen.plan(given, TARGET)
    (tmp_path / "bin" / "mmc").unlink()
    with pytest.raises(ConfigurationError, match="no program mmc"):
        chosen.plan(given, TARGET)
    (tmp_path / "sys" / "mmcblk0boot0" / "size").unlink()
    with pytest.raises(MediaMissingError, match="mmcblk0boot0"):
        chosen.plan(given, TARGET)
    assert not any("of=" in command for command in board.typed)


def test_a_boot_partition_is_locked_again_also_after_a_failure(board: PlayedEmmc) -> None:
    failing = linuxemmc.writable("/dev/mmcblk0boot0", Command("false", lambda _lines, _status: None))
    assert board.run(failing.text)[2] == 1
    assert board.locks() == {"1"}
