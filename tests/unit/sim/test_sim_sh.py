"""The command language: what a shell makes of a line."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from lab.virtual.sim.program import Program
from lab.virtual.sim.sh.interpreter import Interpreter, Runner, Streams, execute_line
from lab.virtual.sim.sh.parser import parse
from lab.virtual.sim.sh.words import IncompleteError, ShellSyntaxError


@define
class Box:
    """A host with echo, cat, true and false, and files in a dictionary."""

    files: dict[str, bytes] = field(factory=dict)

    def runner(self, name: str) -> Runner | None:
        return {"echo": _echo, "cat": _cat, "true": _status(0), "false": _status(1), "sh": _sh}.get(name)

    def unknown(self, name: str) -> str:
        return f"-sh: {name}: command not found"

    def read_file(self, path: str) -> Program[bytes | None]:
        yield from ()
        return self.files.get(path)

    def write_file(self, path: str, data: bytes, *, append: bool) -> Program[str]:
        yield from ()
        if path.startswith("/proc"):
            return f"{path}: Permission denied"
        self.files[path] = (self.files.get(path, b"") if append else b"") + data
        return ""

    def matching(self, pattern: str) -> list[str]:
        return sorted(name for name in self.files if fnmatch(name, pattern))


def _echo(arguments: Sequence[str], streams: Streams, _shell: Interpreter) -> Program[int]:
    words = list(arguments[1:])
    end = "" if words[:1] == ["-n"] else "\n"
    yield from streams.out((" ".join(words[1:] if not end else words) + end).encode())
    return 0


def _cat(arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    if len(arguments) == 1:
        yield from streams.out(streams.stdin or b"")
    for path in arguments[1:]:
        yield from streams.out((yield from shell.host.read_file(path)) or b"")
    return 0


def _sh(arguments: Sequence[str], streams: Streams, shell: Interpreter) -> Program[int]:
    return (yield from shell.subshell().execute(arguments[2], streams))


def _status(status: int) -> Runner:
    def run(_arguments: Sequence[str], _streams: Streams, _shell: Interpreter) -> Program[int]:
        yield from ()
        return status

    return run


def run(source: str, box: Box | None = None, shell: Interpreter | None = None) -> tuple[str, int]:
    """What a text writes, and its status."""
    said = bytearray()

    def write(data: bytes) -> Program[None]:
        said.extend(data)
        yield from ()

    shell = shell or Interpreter(box or Box())
    program = execute_line(shell, source, Streams(write, write), "-sh")
    with pytest.raises(StopIteration) as ended:
        next(program)
    return said.decode(), ended.value.value


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("echo a   'b  c' \"d\"e", "a b  c de\n"),
        ("A=1; echo $A ${A} '$A' \"$A\" ${B:-none}", "1 1 $A 1 none\n"),
        ("echo 'ABCD''EFGH'", "ABCDEFGH\n"),
        ("false; echo $?; true; echo $?", "1\n0\n"),
        ("false && echo a || echo b", "b\n"),
        ("! false && echo yes", "yes\n"),
        ("echo hello | cat", "hello\n"),
        ("for i in 1 2 3; do echo -n $i; done; echo", "123\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n"),
        ("A=x; while false; do echo no; done; echo $A", "x\n"),
        ("echo $(echo inner) `echo back`", "inner back\n"),
        ("echo $((2 + 3 * (4 - 1))) $((0x10 >> 2))", "11 4\n"),
        ("W='a b'; for i in $W; do echo $i; done", "a\nb\n"),
        ('f() { echo "$1-$#"; }; f x y', "x-2\n"),
        ("A=out; f() { echo $A; }; A=in f; echo $A", "in\nout\n"),
        ("echo one # two", "one\n"),
        ("echo a \\\n b", "a b\n"),
        ("nothing 2>&1", "-sh: nothing: command not found\n"),
        ("{ echo a; echo b; } | cat", "a\nb\n"),
        ("(A=2; echo $A); echo [$A]", "2\n[]\n"),
    ],
)
def test_a_line_does_what_a_shell_does(source: str, says: str) -> None:
    assert run(source)[0] == says


def test_labgrids_shell_driver_gets_its_markers_and_the_exit_status() -> None:
    shell = Interpreter(Box())
    run("""run() { echo -n "$MARKER"; sh -c "$@"; echo "$MARKER $?"; }""", shell=shell)
    assert run("MARKER='ABCD''EFGH' run 'echo hi; false'", shell=shell)[0] == "ABCDEFGHhi\nABCDEFGH 1\n"
    assert "MARKER" not in shell.variables


def test_files_are_written_appended_read_and_matched() -> None:
    box = Box()
    run("echo a > f1; echo b >> f1; echo c > f2", box)
    assert box.files == {"f1": b"a\nb\n", "f2": b"c\n"}
    assert run("cat < f1; echo f*; echo 'f*'; echo g*", box)[0] == "a\nb\nf1 f2\nf*\ng*\n"


def test_what_cannot_be_written_is_said_and_fails() -> None:
    assert run("echo a > /proc/x; echo $?") == ("sh: /proc/x: Permission denied\n1\n", 0)


def test_a_command_that_does_not_exist_has_status_127() -> None:
    assert run("nothing")[1] == 127


@pytest.mark.parametrize("source", ["echo 'a", 'echo "a', "if true", "for i in 1; do", "f() {", "echo $(a", "true &&"])
def test_the_beginning_of_a_command_asks_for_more(source: str) -> None:
    with pytest.raises(IncompleteError):
        parse(source)


@pytest.mark.parametrize("source", ["fi", "echo a; done", "; ) ", "| a", "echo >"])
def test_what_is_no_command_is_a_syntax_error(source: str) -> None:
    with pytest.raises(ShellSyntaxError):
        parse(source)


@given(st.text(alphabet="ab '\"$`(){};|&<>=\n\\#!?*~", max_size=30))
def test_whatever_is_typed_the_shell_answers(source: str) -> None:
    try:
        _, status = run(source)
    except IncompleteError:
        return
    assert 0 <= status <= 127
