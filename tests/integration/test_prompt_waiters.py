"""Programs that type into `lab console attach` in a pty and wait for the prompt at the end of what came, as tbot does.

tbot itself is not on PyPI, so its dialogue with a board is spoken here in its own order (docs/neighbours.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from support.measuring_lab import Lab, running_lab

DEADLINE_S = 90
HALVES = ("WAITED", "-FOR$ ")  # of a prompt, so that the echo of setting it is not taken for it
PROMPT = "WAITED-FOR\\$ $"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("qemu")) as lab:
        yield lab


def test_each_command_is_answered_by_a_prompt_that_ends_what_came(lab: Lab) -> None:
    lab.bench.set_straps(1)
    assert lab.bench.power("off") == 200
    lines: list[str] = []
    attach = str(Path(sys.executable).with_name("lab"))
    board = pexpect.spawn(
        "/bin/bash", ["--norc"], env={**os.environ, **lab.environ}, timeout=DEADLINE_S, encoding="latin-1"
    )
    try:
        board.sendline("stty -isig")
        board.sendline(f"{attach} console attach {lab.bench.board.uarts['uart0']}; exit")
        board.expect("Bd; Ctrl-] ends")
        assert lab.bench.power("on") == 200
        board.expect("login: $")
        board.sendline("root")
        board.expect("# $")
        board.sendline(f"PROMPT_COMMAND=''; PS1='{HALVES[0]}''{HALVES[1]}'")
        board.expect(PROMPT)
        for line in ("unset HISTFILE", "stty cols 1024", "PS2=''", "uname -sm", "echo $?"):
            board.sendline(line)
            board.expect(PROMPT)
            lines.append(board.before.split("\r\n")[1])
    finally:
        board.close(force=True)
    assert lines[-2:] == ["Linux aarch64", "0"]
