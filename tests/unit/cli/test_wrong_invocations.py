"""A hundred wrong invocations: one line on stderr, the exit code of docs/cli.md, and a remedy that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from lab.cli import main, watch
from lab.results import open_store

# Words of the libraries that check arguments; nobody should need to know them.
THEIRS: Final = ("Input should", "literal", "typing.", "pydantic", "Traceback", "NoneType", "object at 0x")
INVOCATIONS: Final = (
    ("nonsense", 2, "No such command 'nonsense'"),
    ("run --cycles x", 2, "Invalid value for '--cycles': give a whole number"),
    ("run --cycles 0", 2, "Invalid value for '--cycles': give 1 or more"),
    ("run --bogus", 2, "No such option: --bogus"),
    ("run --env missing.yaml", 2, "no environment 'missing.yaml'"),
    ("run --medium", 2, "Option '--medium' requires an argument"),
    ("results lst", 2, "No such command 'lst'. Did you mean 'list'?"),
    ("results list --limit 0", 2, "Invalid value for '--limit': give 1 or more"),
    ("results list --status bogus", 2, "--status bogus: there are: running, completed, interrupted, failed, ki"),
    (
        "results list --since tomorrow",
        2,
        "'tomorrow' is no point in time: give a day (2026-11-20), a day and a time (2",
    ),
    ("results list --db missing.db", 2, "there are no results in missing.db: the file does not exist"),
    ("results list --db nonsense://x", 2, "results cannot be kept in 'nonsense'"),
    ("results list --db folder", 2, "folder is a directory"),
    ("results list --db text.txt", 2, "results in text.txt: file is not a database: the file is no SQLite dat"),
    ("results show", 2, "Missing argument 'RUN'"),
    ("results show 99", 2, "no run 99"),
    ("results show x", 2, "no run 'x'"),
    ("results where", 2, "Missing argument 'RUN'"),
    ("results where 1", 2, "run 1 has no diagnostic boots: measure with --where (pytest: --lab-whe"),
    ("results where 1 --perfetto", 2, "Option '--perfetto' requires an argument"),
    ("results failures bogus", 2, "there is no failure class 'bogus'"),
    ("results export --csv --junit", 2, "--json, --csv, --junit, --openmetrics or --kcidb: one of them"),
    ("results export --build-id 3", 2, "--build-id belongs to --kcidb"),
    ("results export -o folder", 2, "cannot write folder: Is a directory"),
    ("results import", 2, "Missing argument 'FILE...'"),
    ("results import missing.json", 2, "missing.json: cannot be read"),
    (
        "results import broken.json --board b --type t --release r",
        2,
        "broken.json: none of fio, iperf3, csv, boardlab, ltp-ddt by its conten",
    ),
    (
        "results import text.txt --board b --type am62xx_sk --release r",
        2,
        "text.txt: none of fio, iperf3, csv, boardlab, ltp-ddt by its contents,",
    ),
    ("results import a.csv --board b --type am62xx_sk --release r", 2, "a.csv:1: the header has no unit"),
    ("results upload", 2, "artifacts are not shared: set $LAB_SHARED_ARTIFACTS to s3://BUCKET/PRE"),
    ("results delete", 2, "Missing argument 'RUN'"),
    ("results delete 99", 2, "Missing option '--reason'"),
    ("results migrate --db missing.db", 2, "there are no results in missing.db: the file does not exist"),
    ("report", 2, "Missing argument 'RUN'"),
    ("report 99", 2, "no run 99"),
    ("judge show", 2, "Missing argument 'ID|RUN'"),
    ("judge show 99", 2, "no run 99"),
    ("judge accept", 2, "Missing argument 'RUN'"),
    ("judge mute", 2, "Missing argument 'METRIC'"),
    ("power on", 2, "Missing option '--env' (env var: 'LAB_ENV')"),
    ("power on --env missing.yaml", 2, "no environment 'missing.yaml'"),
    ("power state --env broken.yaml", 2, "broken.yaml:2: not YAML: did not find expected node content"),
    ("console attach", 2, "Missing argument 'PORT'"),
    ("console attach nowhere", 1, "no console server answers"),
    ("console wait nowhere --timeout x", 2, "Invalid value for '--timeout': give a number"),
    ("console replay missing.rec", 2, "missing.rec: no such file, and a recording's files end in .log and .id"),
    ("console replay missing.log", 2, "missing.idx: no such file"),
    ("console replay text.txt", 2, "text.txt: a recording's files end in .log and .idx"),
    ("console truth missing", 2, "Missing argument 'CAPTURE'"),
    ("console check", 2, "Missing argument 'TYPE'"),
    ("console check am62xx_sk", 2, "Missing argument 'LOG...'"),
    ("console check nonsense text.txt", 2, "no board type 'nonsense'"),
    ("console check am62xx_sk missing.log", 2, "missing.log: cannot be read"),
    ("console check am62xx_sk empty.log", 2, "empty.log: is empty"),
    ("console check broken.toml text.txt", 2, "broken.toml: not TOML: Invalid value (at line 1, column 8)"),
    ("console check am62xx_sk folder", 2, "folder: is a folder or a device"),
    ("boards show", 2, "Missing argument 'TYPE'"),
    ("boards show nonsense", 2, "no board type 'nonsense'"),
    ("boards learn", 2, "Missing argument '[MEDIUM=]LOG...'"),
    ("boards learn missing.log", 2, "missing.log: cannot be read"),
    ("boards learn empty.log", 2, "empty.log: is empty"),
    ("boards learn text.txt", 2, "text.txt: no moment of a boot is in it (SPL, U-Boot, the kernel's firs"),
    ("boards learn folder", 2, "folder: is a folder or a device"),
    ("boards learn text.txt --name am62xx_sk", 2, "there is a board type 'am62xx_sk' already"),
    ("env check --env missing.yaml", 2, "no environment 'missing.yaml'"),
    ("env port --env text.txt", 2, "text.txt: expected a mapping with `targets:`, got str"),
    ("health nobody", 2, "no board 'nobody'"),
    ("rails selftest --env broken.yaml", 2, "broken.yaml:2: not YAML: did not find expected node content"),
    ("provision --env missing.yaml", 2, "no environment 'missing.yaml'"),
    ("release check", 2, "Missing argument 'FILE...'"),
    ("release make missing", 2, "Missing option '--board'"),
    ("virtual up nothing", 2, "no kind 'nothing' of virtual boards"),
    ("virtual up sim --count 0", 2, "Invalid value for '--count': give 1 or more"),
    ("virtual up sim --count 100000", 2, "Invalid value for '--count': give 256 at most"),
    ("virtual up sim --type nonsense", 2, "no board type 'nonsense'"),
    ("virtual up sim --name x", 2, "--name, --tools and --network are for `lab virtual up qemu`"),
    ("virtual up sim --time-scale 0", 2, "--time-scale 0.0: above 0 and at most 10"),
    ("virtual fault nobody slow_unit --dir nowhere", 2, "no virtual bench runs in nowhere"),
    ("ab", 2, "Missing option '--env' (env var: 'LAB_ENV')"),
    ("bisect", 2, "Missing option '--good'"),
    ("guide read", 2, "Missing argument 'FILE…'"),
    ("guide read missing.rst", 2, "missing.rst: cannot be read"),
    ("guide read text.txt", 2, "text.txt: holds no table of a performance guide"),
    ("guide check missing.rst", 2, "missing.rst: cannot be read"),
    ("guide check folder", 2, "folder: cannot be read"),
    ("guide compare", 2, "Missing argument 'OLD… NEW'"),
    ("guide compare 11.00", 2, "compare: name two guides at least, the older one first"),
    ("guide compare 11.00 11.01", 2, "results.db has no numbers of release 11.00"),
    ("guide trend missing.rst", 2, "Missing option '--board'"),
    ("guide write", 2, "Missing option '--release'"),
    ("farm check missing.yaml", 2, "missing.yaml: cannot be read"),
    ("farm check broken.yaml", 2, "broken.yaml:2: not YAML: did not find expected node content"),
    ("farm add", 2, "Missing argument 'FILE.csv'"),
    ("farm up --count 0", 2, "Invalid value for '--count': give 1 or more"),
    ("farm up --type nonsense", 2, "no board type 'nonsense'"),
    ("farm discover missing.yaml", 2, "missing.yaml: cannot be read"),
    ("farm logs nonsense", 2, "no program 'nonsense'"),
    ("watch --interval 0", 2, "Invalid value for '--interval': give 0.5 or more"),
    ("watch --interval x", 2, "Invalid value for '--interval': give a number"),
    ("status --farm missing.yaml", 2, "missing.yaml: cannot be read"),
    ("doctor --farm missing.yaml", 2, "missing.yaml: cannot be read"),
    ("jobs cancel 99", 2, "no job j99"),
    ("jobs cancel x", 2, "'x' is no job: `lab jobs list` has their numbers, e.g. j12"),
    ("reserve nobody", 2, "no board 'nobody'"),
    ("init", 2, "Missing argument 'DIR'"),
    ("exporter --port 99999999", 2, "No such option: --port (Possible options: --host)"),
    ("backup", 2, "which folder? lab backup DIR, or `backup: {to: DIR}` in farm.yaml"),
    ("backup missing", 2, "missing: no such folder"),
    ("restore", 2, "Missing argument 'DIR'"),
    ("restore missing", 2, "missing: no such folder"),
    ("restore empty", 2, "empty: no complete backup there"),
    ("upgrade --bogus", 2, "No such option: --bogus"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs, files that nothing can read, and no farm."""
    monkeypatch.chdir(tmp_path)
    for name in ("LAB_ENV", "LAB_FARM", "LAB_SHARED_ARTIFACTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LAB_DB", f"sqlite:///{tmp_path}/results.db")
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    with open_store(f"sqlite:///{tmp_path}/results.db") as store:
        for _ in range(2):
            run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
            store.finish_run(run.id, "completed")
    texts = {
        "empty.log": "",
        "text.txt": "hello\nworld\n",
        "broken.toml": "name = \n",
        "broken.yaml": "a: [\n",
        "broken.json": "{",
        "a.csv": "metric,value\nx\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.parametrize(("words", "code", "told"), INVOCATIONS, ids=[words for words, _, _ in INVOCATIONS])
def test_a_wrong_invocation_is_one_line_with_its_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, told: str
) -> None:
    assert main(words.split()) == code
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert line.startswith("error: ")
    assert told in line.replace(f"{folder}/", "")
    assert not [word for word in THEIRS if word in line]
    for command in re.findall(r"`lab ([^`]+ -h)`", line):
        assert main(shlex.split(command)) == 0
        assert "Usage: lab" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "followed"),
    [
        ("results lst", "results list"),
        ("results list --status bogus", "results list --status running"),
        ("results list --since tomorrow", "results list --since 12h"),
        ("results list --limit 0", "results list --limit 1"),
        ("results list --db missing.db", "results list --db results.db"),
        ("results list --db folder", "results export -o folder/results.json"),
        ("results show x", "results show latest"),
        ("results show 99", "results show 1"),
        ("results failures bogus", "results failures"),
        ("results export -o folder", "results export -o other.json"),
        ("results import a.csv --board b --type am62xx_sk --release r", "results export --csv"),
        ("results delete 99", "results delete 1 --reason wrong"),
        ("boards show nonsense", "boards show am62xx_sk"),
        ("health nobody", "health"),
        ("jobs cancel x", "jobs list"),
        ("env check --env missing.yaml", "init {folder}/new"),
        ("farm check missing.yaml", "init {folder}/new"),
        ("backup missing", "backup empty"),
        ("restore empty", "backup empty"),
    ],
)
def test_a_remedy_works_when_it_is_followed(folder: Path, wrong: str, followed: str) -> None:
    assert main(wrong.split()) == 2
    assert main(followed.format(folder=folder).split()) == 0


def test_a_missing_argument_names_the_command_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "where", "1", "--perfetto"]) == 2
    assert "`lab results where -h`" in capsys.readouterr().err
    assert main(["run", "--medium"]) == 2
    assert "`lab run -h` shows" in capsys.readouterr().err


def test_a_watch_whose_reader_has_enough_ends_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def closed(*_lines: str) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(watch, "echo", closed)
    monkeypatch.setattr("lab.terminal.drop_output", lambda: None)
    assert main(["watch"]) == 0
    assert capsys.readouterr().err == ""
