"""Busybox keeps quiet at the prompt."""

from __future__ import annotations

import pytest

from lab.errors import LabStableError
from lab.virtual.qemu.rootfs import CURSOR_QUERY, quiet

PROGRAM = b"\x7fELF\0before\0\x1b[999;999H" + CURSOR_QUERY + b"\0behind\0"


def test_the_question_becomes_an_empty_string_and_nothing_else_changes() -> None:
    assert quiet(PROGRAM) == b"\x7fELF\0before\0\x1b[999;999H\0[6n\0behind\0"


def test_a_longer_question_of_another_program_stays() -> None:
    program = PROGRAM + CURSOR_QUERY + b"\0"
    assert quiet(program) == PROGRAM + b"\0[6n\0"


@pytest.mark.parametrize(
    "program",
    [b"\x7fELF\0another build\0", PROGRAM + PROGRAM, b"\0" + CURSOR_QUERY + b"?\0"],
    ids=["missing", "twice", "not at an end"],
)
def test_a_busybox_that_is_built_otherwise_is_refused_with_the_place_to_look(program: bytes) -> None:
    with pytest.raises(LabStableError, match=r"lab/virtual/qemu/rootfs\.py"):
        quiet(program)
