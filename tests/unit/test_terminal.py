"""Nothing that a board or a store says acts on a terminal: not in lines, not in JSON, not in any command's output."""

from __future__ import annotations

import ast
import json
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st
from support.console_bench import BOOT, paced

from lab.cli import main
from lab.console import RecordingMeta, encode
from lab.console.terminal import LiveText
from lab.errors import BoardTransientError
from lab.pytest_plugin.runs import STORE_KEY, summarise_run, writer
from lab.results import Store, open_store
from lab.terminal import PlainFormatter, json_text, plain, plain_bytes, plain_text, table

REPOSITORY = Path(__file__).resolve().parents[2]
HOSTILE = "11.01\x1b[2J\x9b31m\x7f\u202e\u2066\u2028\x07\nrun 99: completed\r\ud800"
WRITTEN = r"11.01^[[2J\x9b31m\x7f\u202e\u2066\u2028^G^Jrun 99: completed^M\ud800"
HARMFUL = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def harmful(text: str) -> set[str]:
    """What of a text would act on a terminal, but for the ends of its lines."""
    return {c for c in text.replace("\r\n", "\n") if unicodedata.category(c) in HARMFUL and c not in "\n\t"}


def test_a_line_is_written_out() -> None:
    assert plain(HOSTILE) == WRITTEN
    assert plain("µ ± 3.2\t“ok”") == "µ ± 3.2\t“ok”"
    assert plain_bytes(b"\xff\x1b\xc2\x9b") == r"\xff^[\x9b"


@given(st.text())
def test_any_text_becomes_harmless_and_stays_so(text: str) -> None:
    assert not harmful(plain(text))
    assert "\n" not in plain(text)
    assert not harmful(plain_text(text))
    assert plain(plain(text)) == plain(text)
    assert plain_text(text).count("\n") == text.count("\n")


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_becomes_harmless_and_says_the_same(value: Any) -> None:
    text = json_text(value)
    assert not harmful(text)
    assert json.loads(text) == value


def test_a_cell_of_a_table_is_one_line() -> None:
    assert table(["release"], [[HOSTILE]], "<") == ["release", WRITTEN]


@given(st.binary(), st.lists(st.integers(0, 50)))
def test_a_live_console_is_harmless_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    text, shown = LiveText(), ""
    for cut in [*cuts, len(data)]:
        shown += text.feed(data[:cut])
        data = data[cut:]
    assert not harmful(shown)


def test_a_live_console_keeps_its_line_ends() -> None:
    text = LiveText()
    assert [text.feed(piece) for piece in (b"one\r", b"\r\ntwo \xc2", b"\xb5\n\x1b[1A", b"\rthree")] == [
        "one",
        "\r\ntwo ",
        "µ\n^[[1A",
        "^Mthree",
    ]


def test_a_log_is_harmless() -> None:
    record = logging.LogRecord("lab", logging.ERROR, "", 0, "%s", ("\x1b[2J\u202e",), None)
    assert PlainFormatter("%(message)s").format(record) == r"^[[2J\u202e"


@frozen
class Evil:
    """A database and a recording whose every string is hostile."""

    database: Path
    recording: Path


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Evil:
    """A store with a hostile run, and a boot with hostile lines."""
    from support.recorded_run import record  # noqa: PLC0415 - it takes a second to import

    folder = tmp_path_factory.mktemp("evil")
    hostile = HOSTILE.replace("\ud800", "")  # no database takes a lone surrogate
    with open_store(str(folder / "results.db")) as store:
        record(store)
        run = store.begin_run(
            "boot", hostile, hostile, hostile, plan={"media": [hostile]}, provenance={"who": hostile}
        )
        store.finish_run(run.id, "failed")
    meta = RecordingMeta("uart0", "/dev/ttyUSB0\x1b[2J", 115200)
    boot = BOOT.replace(b"U-Boot 2023.01", b"\xc2\x9b2J\xe2\x80\xae\x1b[2J\x07U-Boot 2023.01").replace(
        b"Run /init", b"\xe2\x81\xa6\x1b]0;owned\x07\xc2\x85Run /init"
    )
    contents = encode(meta, paced(boot, meta.timing))
    for suffix, content in zip((".log", ".idx"), contents, strict=True):
        (folder / f"evil{suffix}").write_bytes(content)
    return Evil(folder / "results.db", folder / "evil.log")


@pytest.mark.parametrize(
    "words",
    [
        ["results", "list"],
        ["results", "list", "--json"],
        ["results", "show", "2"],
        ["results", "show", "2", "--json"],
        ["results", "show", "2", "--log"],
        ["results", "show", "1", "--log", "--cycle", "7"],
        ["results", "export", "--json"],
        ["results", "export", "--csv"],
        ["results", "show", "1", "--log", "--medium", HOSTILE],
        ["guide", "trend", "boot.time", "--board", HOSTILE],
        ["guide", "write", "--release", HOSTILE],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_what_a_command_prints_of_a_hostile_store_is_harmless(
    evil: Evil, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--db", str(evil.database)])
    said = capsys.readouterr()
    assert said.out + said.err
    assert not harmful(said.out + said.err)
    assert "\nrun 99: completed" not in said.out + said.err


def test_a_hostile_release_keeps_to_its_cell(
    evil: Evil, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["results", "list", "--db", str(evil.database)]) == 0
    out = capsys.readouterr().out
    assert WRITTEN.replace(r"\ud800", "") in out
    assert len(out.splitlines()) == 3


@pytest.mark.parametrize("command", ["replay", "show"])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_command_prints_of_a_hostile_recording_is_harmless(
    evil: Evil,
    command: str,
    as_json: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--json"] if as_json and command == "replay" else []
    assert main(["console", command, str(evil.recording), *words]) == 0
    out = capsys.readouterr().out
    assert "U-Boot 2023.01" in out
    assert not harmful(out)


def test_a_page_about_a_hostile_run_is_harmless(evil: Evil, tmp_path: Path) -> None:
    assert main(["report", "2", "--db", str(evil.database), "-o", str(tmp_path / "page.html")]) == 0
    assert not harmful((tmp_path / "page.html").read_text())


@define
class Terminal:
    """pytest's terminal reporter, and its configuration, as far as our lines need them."""

    stash: dict[Any, Store]
    option: Any
    lines: list[str] = field(factory=list)
    args: tuple[str, ...] = ("tests_perf",)
    invocation_params: Any = field(factory=lambda: SimpleNamespace(dir=Path("/")))

    def getplugin(self, name: str) -> Terminal | None:
        return self if name == "terminalreporter" else None

    @property
    def pluginmanager(self) -> Terminal:
        return self

    def write_line(self, line: str, **_markup: bool) -> None:
        self.lines.append(line)

    def section(self, title: str) -> None:
        self.lines.append(title)

    def ensure_newline(self) -> None: ...

    def flush(self) -> None: ...


@define
class Options:
    """The options that our lines show."""

    lab_db: str | None
    lg_env: str = "envs/virtual.yaml"
    inifilename: str | None = None


def test_the_lines_in_pytest_s_terminal_are_harmless(evil: Evil) -> None:
    with open_store(str(evil.database)) as store:
        terminal: Any = Terminal({STORE_KEY: store}, Options(str(evil.database)))
        summarise_run(terminal, terminal, "boot time", 2)
        writer(terminal)(f"sd 1/20 FAILED: {BoardTransientError(HOSTILE)}")
    assert len(terminal.lines) > 3
    assert not harmful("\n".join(terminal.lines))


def test_an_error_is_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "replay", str(tmp_path / "\x1b[2J\u202e.log")]) == 2
    err = capsys.readouterr().err
    assert r"^[[2J\u202e.log" in err
    assert not harmful(err)


def test_commands_print_by_our_functions_only() -> None:
    """`typer.echo` and `click.echo` show what they are given."""
    forbidden = {f"{module}.{name}" for module in ("typer", "click") for name in ("echo", "secho")}
    wrong = []
    for package in ("lab", "virtual", "exporters"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(source)) if "echo" in source else ():
                if isinstance(node, ast.Attribute) and ast.unparse(node) in forbidden:
                    wrong.append(f"{path}:{node.lineno}")
    assert wrong == []


def test_a_program_that_logs_says_nothing_of_how_a_store_is_made(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom lab.terminal import log_to\nlog_to(sys.stderr)\n"
        "from lab.results import open_store\nopen_store(sys.argv[1]).close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.db")], check=True, capture_output=True, text=True, timeout=60
    )
    assert "has schema" in done.stderr
    assert "plugin" not in done.stderr
