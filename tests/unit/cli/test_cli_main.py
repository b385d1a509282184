"""`lab`: lazy command groups, one line for an error, an honest exit code."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from support import recorded_run
from support.facts import missing_facts

from lab import boards
from lab.cli import main
from lab.cli.main import COMMAND_GROUPS, CommandGroup, words
from lab.errors import BoardStableError, BoardTransientError, ConfigurationError, LabStableError, TestStableError
from lab.results import open_store

FAILING = """
import typer
from lab import errors

app = typer.Typer()

@app.command()
def fail(name: str) -> None:
    if name == "interrupt":
        raise KeyboardInterrupt
    raise getattr(errors, name)("it is broken; mend it")

@app.command()
def unicode() -> None:
    typer.echo("3.2 ± 0.1 µs")
"""


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CommandGroup, ...]:
    """A group whose commands fail."""
    (tmp_path / "failing_commands.py").write_text(FAILING)
    monkeypatch.syspath_prepend(str(tmp_path))
    return (CommandGroup("group", "A group that fails.", "failing_commands"),)


LAB = Path(sys.executable).with_name("lab")


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def in_shell(command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What a shell's line gives, whose first word is `lab`."""
    lab = f"{shlex.quote(sys.executable)} -c 'import sys; from lab.cli import main; sys.exit(main())'"
    line = f"{lab} {command.removeprefix('lab ')}"
    return subprocess.run(["sh", "-c", line], check=False, capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError, 2),
        (LabStableError, 1),
        (BoardTransientError, 1),
        (BoardStableError, 1),
        (TestStableError, 1),
    ],
)
def test_an_error_is_one_line_and_says_whose_fault_it_is_by_the_exit_code(
    groups: tuple[CommandGroup, ...], capsys: pytest.CaptureFixture[str], error: type[Exception], code: int
) -> None:
    assert main(["group", "fail", error.__name__], groups) == code
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "error: it is broken; mend it\n")


def test_ctrl_c_ends_quietly_as_shells_expect(
    groups: tuple[CommandGroup, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["group", "fail", "interrupt"], groups) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["lab boards", "lab boards --json", "lab --help", "lab --version"])
def test_a_full_disk_behind_the_output_is_one_line(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [LAB, *command.split()[1:]], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert answer.returncode == 1
    assert answer.stderr.count("\n") == 1
    assert not missing_facts(answer.stderr, "error: ", "No space left", "make room")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("lab boards >&-", 0),
        ("lab boards 2>&-", 0),
        ("lab nosuch 2>&-", 2),
        ("lab judge replay - <&-", 0),
        ("lab web user add lena --role viewer --users users.json <&-", 2),
    ],
)
def test_a_closed_stream_is_an_empty_one(tmp_path: Path, command: str, code: int) -> None:
    answer = in_shell(command, tmp_path)
    assert answer.returncode == code
    assert "Traceback" not in answer.stderr
    assert answer.stderr.count("\n") <= 1


@pytest.mark.parametrize(
    "command",
    [
        ("release", "make", ".", "--board", "am62xx_sk", "--name", "r1", "--output"),
        ("release", "ram-linux"),
        ("virtual", "uboot-tests"),
    ],
    ids=" ".join,
)
def test_a_file_in_place_of_a_folder_to_write_into_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    assert main([*command, str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not missing_facts(said, "error: ", str(tmp_path / "file"), "File exists", "another folder")


def test_a_reader_that_goes_is_no_error() -> None:
    answer = in_shell("lab virtual faults | head -1")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("fault ")


def test_help_names_every_group_and_loads_none() -> None:
    program = (
        "import sys\n"
        "from lab.cli import main\n"
        "assert main(['--help']) == 0\n"
        "heavy = {'sqlalchemy', 'alembic', 'matplotlib', 'scipy', 'numpy', 'jinja2', 'labgrid', 'lab.boards', 'lab.virtual', 'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    answer = python(program)
    assert answer.returncode == 0, answer.stderr
    for group in COMMAND_GROUPS:
        assert f" {group.name} " in answer.stdout


def test_a_terminal_on_a_port_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lab.cli import main\n"
        f"assert main(['console', 'attach', 'nowhere', '--runtime', {str(tmp_path)!r}]) == 1\n"
        "heavy = {'sqlalchemy', 'numpy', 'cattrs', 'rich', 'lab.boards', 'lab.run', 'lab.console.loop'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    answer = python(program)
    assert answer.returncode == 0, answer.stderr
    assert not missing_facts(answer.stderr, "no console server")


@pytest.mark.parametrize("group", COMMAND_GROUPS, ids=lambda group: group.name)
def test_every_group_has_commands(group: CommandGroup) -> None:
    app = getattr(importlib.import_module(group.module), group.app)
    assert isinstance(app, typer.Typer)
    assert app.registered_commands or app.registered_groups


@pytest.mark.parametrize("group", COMMAND_GROUPS, ids=lambda group: group.name)
def test_every_group_explains_itself(group: CommandGroup, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([group.name, "--help"]) == 0
    assert f"Usage: lab {group.name} " in capsys.readouterr().out


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"boardlab {importlib.metadata.version('boardlab')}\n"


@pytest.mark.parametrize(
    "arguments", [["resutls"], ["--verison"], ["results", "lits"], ["report"], ["results", "list", "--limit", "0"]]
)
def test_a_wrong_word_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"error: .*`lab.* -h`.*\n", said.err)
    assert "Traceback" not in said.err


def test_a_misspelt_group_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resutls"]) == 2
    assert "Did you mean 'results'?" in capsys.readouterr().err


def test_boards_lists_the_board_types_with_their_media(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards"]) == 0
    out = capsys.readouterr().out
    for name in boards.names():
        assert f"{name} " in out
    assert main(["boards", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {board["name"]: list(board["media"]) for board in listed} == {
        name: list(boards.load(name).media) for name in boards.names()
    }


def test_a_reader_that_goes_away_early_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen([LAB, "boards", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.wait()
    process.stderr.close()


def test_a_terminal_without_these_letters_gets_what_it_can_show(
    groups: tuple[CommandGroup, ...], tmp_path: Path
) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from lab.cli import main\n"
        "from lab.cli.main import CommandGroup\n"
        "sys.exit(main(['group', 'unicode'], [CommandGroup('group', '', 'failing_commands')]))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=True,
        capture_output=True,
        env={"PYTHONIOENCODING": "iso8859-5", "PATH": "/usr/bin:/bin"},
    )
    assert answer.stdout == b"3.2 \\xb1 0.1 \\xb5s\n"


def test_a_shell_completes_the_commands_of_the_room_on_its_line() -> None:
    assert words(["x"], {}) == ["x"]
    assert words(["x"], {"COMP_WORDS": "lab results s"}) == ["x"]
    completing = {"_LAB_COMPLETE": "complete_bash", "COMP_WORDS": "lab results s", "COMP_CWORD": "2"}
    assert words([], completing) == ["results", "s"]
    program = "import sys; from lab.cli import main; sys.exit(main([]))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin", **completing},
    )
    assert answer.stdout.split() == ["show"]


def test_the_first_screen_has_twelve_commands_and_none_that_only_programs_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    first = capsys.readouterr().out.partition("Boards and their software")[0]
    listed = [group.name for group in COMMAND_GROUPS if f"│ {group.name} " in first]
    assert listed == [group.name for group in COMMAND_GROUPS if not group.panel]
    assert len(listed) == 12
    for word, hidden in (("farm", "released"), ("farm", "notify"), ("rails", "serve"), ("virtual", "tester")):
        assert main([word, "--help"]) == 0
        assert f"│ {hidden} " not in capsys.readouterr().out
        assert main([word, hidden, "--help"]) == 0
        capsys.readouterr()


def test_what_writes_files_names_them_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(str(tmp_path / "results.db")) as store:
        recorded_run.record(store, cycles=1, virtual=False)
    db = ("--db", str(tmp_path / "results.db"))
    for command in (["init", "lab"], ["report", "1", *db], ["guide", "write", "--release", "11.01", *db]):
        assert main([*command, "--json"]) == 0
        files = json.loads(capsys.readouterr().out)["files"]
        assert files
        assert all(Path(file).is_file() for file in files)
