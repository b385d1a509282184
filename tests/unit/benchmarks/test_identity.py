"""Which board hangs on the console: what its shell says, and what that is compared with."""

from __future__ import annotations

import pytest

from lab import boards
from lab.benchmarks.boot.evidence import BootEvidence
from lab.benchmarks.identity import BoardIdentity, check_board, from_document, identify
from lab.errors import LabStableError


class Shell:
    """Answers commands that begin like these."""

    def __init__(self, **answers: str) -> None:
        self._answers = {
            "cat /proc/device-tree/serial-number": answers.get("serial", ""),
            "cat /sys/class/net/*/address": answers.get("macs", ""),
            "grep ' / / '": answers.get("root", ""),
            "cat /sys/dev/block/179:98/uevent": answers.get("uevent", ""),
        }

    def run(self, cmd: str) -> tuple[list[str], list[str], int]:
        said = next((text for start, text in self._answers.items() if cmd.startswith(start)), "")
        return said.splitlines(), [], 0


def test_a_board_is_known_by_its_serial_number_and_its_own_addresses() -> None:
    macs = "00:00:00:00:00:00\n70:FF:76:1D:00:02\n02:11:22:33:44:55\n70:ff:76:1d:00:01\nrubbish"
    found = identify(Shell(serial="0000000000001A2B\0", macs=macs))
    assert found == BoardIdentity("0000000000001A2B", ("70:ff:76:1d:00:01", "70:ff:76:1d:00:02"))
    assert from_document(found.document()) == found


@pytest.mark.parametrize("serial", ["", "\0", "cat: can't open: \x1b[0m", "x" * 101])
def test_what_is_no_serial_number_is_none(serial: str) -> None:
    assert identify(Shell(serial=serial)).serial == ""


@pytest.mark.parametrize(
    ("mount", "uevent", "device"),
    [
        ("22 1 179:98 / / rw,relatime - ext4 /dev/root rw", "MAJOR=179\nDEVNAME=mmcblk1p2\n", "mmcblk1p2"),
        ("22 1 0:16 / / ro,relatime shared:1 - ubifs ubi0:rootfs rw", "", "ubi0:rootfs"),
        ("1 1 0:2 / / rw - rootfs rootfs rw", "", ""),
        ("rubbish - ", "", ""),
        ("", "", ""),
    ],
)
def test_the_root_file_systems_device_is_that_of_the_last_mount(mount: str, uevent: str, device: str) -> None:
    assert identify(Shell(root=mount, uevent=uevent)).root == device


def test_the_kind_of_the_roots_card_is_the_kernels_and_names_its_medium_however_it_was_numbered() -> None:
    mount = "22 1 179:98 / / rw,relatime - ext4 /dev/root rw"
    found = identify(Shell(root=mount, uevent="MAJOR=179\nDEVNAME=mmcblk0p2\nSD"))
    assert (found.root, found.card) == ("mmcblk0p2", "SD")
    for card, is_wrong in (("SD", False), ("MMC", True), ("", True)):
        evidence = BootEvidence(boards.load("am62xx_sk"), "sd")
        assert (evidence.root_is_on("mmcblk0p2", card) is not None) == is_wrong


A, B = BoardIdentity("a1", ("70:ff:76:00:00:01",)), BoardIdentity("b2")


def test_another_board_is_refused_and_both_are_named() -> None:
    with pytest.raises(LabStableError, match=r"says b2.*env says a1\.") as raised:
        check_board(B, "desk-1", frozenset({"a1"}), "the env")
    assert raised.value.failure == "wrong_board"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (A, frozenset({"a1"})),
        (A, frozenset({"70:FF:76:00:00:01"})),
        (A, frozenset()),
        (BoardIdentity(), frozenset({"a1"})),
    ],
)
def test_the_same_board_or_nothing_to_compare_is_no_contradiction(
    said: BoardIdentity, expected: frozenset[str]
) -> None:
    check_board(said, "desk-1", expected, "the env")
