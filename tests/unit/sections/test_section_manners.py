"""What sections leave alone on board and tester: other users' files and processes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from attrs import define, evolve
from support.scripted_host import ScriptedHost, session

from lab import boards
from lab.benchmarks import iperf3
from lab.errors import BoardTransientError
from lab.run.session import CommandResult

REPOSITORY = Path(__file__).resolve().parents[3]
# A folder that everybody writes to, where a name that is known beforehand may be planted; and signals to whoever has a
# number that was written down.
_RISKY = re.compile(r"/tmp/|/var/tmp|/dev/shm/|\bpkill\b|--pidfile|kill \$\(cat")  # noqa: S108 - what is looked for


def literals(path: Path) -> list[tuple[int, str]]:
    """The texts of a module but for its docstrings, with their lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]


def test_no_command_uses_a_predictable_name_where_everybody_may_plant_one() -> None:
    rooms = (
        "lab/benchmarks",
        "lab/drivers",
        "lab/provision",
        "lab/pytest_plugin",
        "lab/run",
        "lab/control",
        "strategies",
    )
    modules = [path for room in rooms for path in sorted((REPOSITORY / room).rglob("*.py"))]
    assert len(modules) > 50
    found = [f"{path}:{line}: {text}" for path in modules for line, text in literals(path) if _RISKY.search(text)]
    assert found == []


def test_a_server_ends_before_the_board_is_given_up_so_that_its_flood_spoils_no_other_row() -> None:
    limits: list[float] = []

    @define
    class Board(ScriptedHost):
        def run(self, command: str, timeout_s: float) -> CommandResult:
            limits.append(timeout_s)
            raise BoardTransientError(f"`{command}` did not end", failure="command_timeout")

    tester = ScriptedHost({})
    for row in {section.name: section for section in iperf3.SECTIONS}["iperf3-udp"].rows(session(Board(), tester)):
        with pytest.raises(BoardTransientError):
            list(row.measure())
    served = [float(command.split()[1]) for command in tester.ran if command.startswith("(timeout")]
    assert len(served) == len(limits) > 1
    assert all(server < client for server, client in zip(served, limits, strict=True))


def test_a_server_on_the_tester_is_ended_by_its_own_parent_or_its_first_client() -> None:
    tester = ScriptedHost({})
    bench = session(ScriptedHost({}), tester)
    iperf3._serve(bench)
    iperf3._stop(bench)
    serve, stop = tester.ran
    assert re.fullmatch(r"\(timeout \d+ iperf3 --server --one-off < /dev/null > /dev/null 2>&1 &\)", serve)
    assert stop.startswith("iperf3 --client 127.0.0.1 ")
    assert not re.search(r"\bp?kill|pid", serve + stop)


@pytest.mark.parametrize(("board", "limit_s"), [("am62xx_sk", 30.0), ("qemu-virt", 120.0)])
def test_an_emulated_board_has_more_time_for_a_command(board: str, limit_s: float) -> None:
    host = ScriptedHost()  # a command takes as long as it may
    evolve(session(host), board=boards.load(board)).run("true")
    assert host.clock.ns == round(limit_s * 1e9)
