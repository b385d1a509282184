"""What nothing undoes is never issued: the list knows it, and no text of a command in the code is on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import TestStableError
from lab.provision.writers.command import irreversible, refuse_irreversible

REPOSITORY = Path(__file__).resolve().parents[3]
HERE = "lab/provision/writers/command.py"
COMMANDING = sorted(
    path
    for room in (
        "lab/provision",
        "lab/drivers",
        "lab/control",
        "strategies",
        "lab/benchmarks",
        "lab/run",
        "lab/env",
        "lab/cli",
    )
    for path in (REPOSITORY / room).rglob("*.py")
    if str(path.relative_to(REPOSITORY)) != HERE
)
FINAL = [
    *("mmc rst-function 0 1", "mmc  rst-function 0 0", "if true; then mmc rst-function 0 1; fi"),
    *("mmc hwpartition user wrrel on complete", "mmc bootpart-resize 0 4 4", "mmc wp", "mmc rpmb key 82000000"),
    *(
        "mmc hwreset enable /dev/mmcblk0",
        "mmc gp create -y 1024 1 0 0 0 /dev/mmcblk0",
        "mmc enh_area set -y 0 8 /dev/mmcblk0",
    ),
    *("mmc writeprotect boot set /dev/mmcblk0", "mmc extcsd write 162 1 /dev/mmcblk0", "mmc bkops-enable 0"),
    *(
        "fuse prog -y 0 0 1",
        "fuse override 0 0 1",
        "efuse prog 1",
        "keywriter 1",
        "sf protect lock 0 1000",
        "sf otp write 1",
    ),
    *(
        "flash_lock /dev/mtd0",
        "flash_otp_write /dev/mtd0 u",
        "nand markbad 0",
        "nand scrub 0",
        "mtd otpwrite x",
        "oem lock",
        "flashing lock",
    ),
]
HARMLESS = [
    *(
        "mmc write 82000000 0 400",
        "mmc partconf 0 1 1 1",
        "mmc bootbus 0 2 0 0",
        "mmc dev 0 1",
        "mmc erase 0 400",
        "sf probe",
    ),
    *(
        "sf update 82000000 0 ${filesize}",
        "mtd erase ospi.tispl",
        "ubi part ospi.rootfs",
        "nand erase 0 20000",
        "flashcp -v a /dev/mtd0",
    ),
    *("bmaptool copy --nobmap a b", "mmc bootpart enable 1 1 /dev/mmcblk0", "fastboot usb 0"),
]


@pytest.mark.parametrize("command", FINAL)
def test_what_nothing_undoes_is_refused(command: str) -> None:
    assert irreversible(command)
    with pytest.raises(TestStableError, match="boardlab never issues it"):
        refuse_irreversible(command)


@pytest.mark.parametrize("command", HARMLESS)
def test_what_can_be_undone_is_not(command: str) -> None:
    assert refuse_irreversible(command) == command


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """All strings of a file that may become commands; of those with gaps what stands around them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(part.value if isinstance(part, ast.Constant) else "0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents:
            yield node.lineno, node.value


def test_no_text_in_the_code_is_such_a_command() -> None:
    found = [(str(path), number, text) for path in COMMANDING for number, text in texts(path) if irreversible(text)]
    assert found == []


def test_such_a_text_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text('"""mmc rst-function 0 1"""\nx = f"mmc rst-function {device} 1"\ny = "mmc write"\n')
    assert [number for number, text in texts(tmp_path / "x.py") if irreversible(text)] == [2, 2], (
        "the whole, and its beginning"
    )
