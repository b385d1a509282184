"""The documents name what exists: examples load, tables list every key."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import attrs
import man_page
import pattern_table
import pytest
import test_import_graph
from typer.main import get_command

from lab import pytest_plugin
from lab.boards import (
    FEATURES,
    Benchmarks,
    Blocker,
    BoardType,
    Flow,
    Identity,
    Link,
    LowPowerModes,
    Medium,
    MediumEvidence,
    MomentPattern,
    Prompts,
    Published,
    PublishedRange,
    Rail,
    SdkRelease,
    Sign,
    Timeouts,
    TransferRates,
    Uart,
    WakeSource,
    load,
    load_file,
)
from lab.boards.model import REFERENCED
from lab.cli import virtual as virtual_commands
from lab.cli.main import COMMAND_GROUPS
from lab.console import operations
from lab.console.model import Chunk, Lateness, RecordKind
from lab.console.protocol import FrameType
from lab.console.recording import RecordingMeta, encode
from lab.metrics import Flag
from lab.virtual.sim.faults.catalogue import read_scenario
from lab.virtual.sim.model import simulated
from lab.virtual.sim.uboot.basics import TEXTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADDING_A_BOARD = (DOCS / "adding-a-board.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_board_types_on_the_page_load(tmp_path: Path) -> None:
    example, nearly = blocks(ADDING_A_BOARD, "toml")
    path = tmp_path / "my_sk.toml"
    path.write_text(nearly, encoding="utf-8")
    assert "my-board login: " in {moment.pattern for moment in load_file(path).moments}
    path.write_text(example, encoding="utf-8")
    board = load_file(path)
    assert board.console.name == "main0"
    assert board.media["emmc"].boot_mode == 0b0100
    assert board.failures["PMIC: undervoltage"].means == "undervoltage"
    assert len(board.failures) > 1, "the failures of all boards are added"


@pytest.mark.parametrize(
    "record",
    [
        Benchmarks,
        Blocker,
        BoardType,
        MediumEvidence,
        PublishedRange,
        Flow,
        Identity,
        Link,
        Medium,
        MomentPattern,
        Prompts,
        Published,
        Rail,
        SdkRelease,
        Sign,
        TransferRates,
        Timeouts,
        Uart,
        WakeSource,
    ],
)
def test_the_page_explains_every_key_of_a_board_type(record: type) -> None:
    keys = {field.name for field in attrs.fields(record)}
    assert {key for key in keys if f"`{key}`" not in ADDING_A_BOARD} == set()


def test_the_page_explains_every_key_of_the_low_power_table() -> None:
    keys = {field.name for field in attrs.fields(LowPowerModes)}
    assert {key for key in keys if not re.search(rf"`{key}(\.[A-Z]+)?`", ADDING_A_BOARD)} == set()


def test_the_page_explains_every_feature() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", ADDING_A_BOARD, re.MULTILINE))
    assert {name: listed.get(name) for name in FEATURES} == FEATURES


def test_the_page_lists_the_patterns_without_a_source() -> None:
    page = pattern_table.on_page_markdown(ADDING_A_BOARD).splitlines()
    assert {line for line in pattern_table.lines() if line not in page} == set()
    assert any(line.startswith("| `am43xx-gpevm` | `rom` |") for line in page)


def test_the_page_names_every_pattern_that_a_table_gives_the_reference_of() -> None:
    assert {name for name in REFERENCED if f"`{name}`" not in ADDING_A_BOARD.replace('"', "")} == set()


def test_the_page_gives_the_defaults_of_the_timeouts() -> None:
    listed = dict(re.findall(r"^\| `(\w+_s)` \|.*\| ([\d.]+) \|$", ADDING_A_BOARD, re.MULTILINE))
    assert {name: float(value) for name, value in listed.items()} == attrs.asdict(Timeouts())


def test_the_page_on_results_explains_every_flag() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(Flag)


CONSOLE = (DOCS / "console-formats.md").read_text(encoding="utf-8")


def test_the_examples_read_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = RecordingMeta(name="port", device="/dev/ttyUSB0", speed_bd=115200)
    events = [
        Chunk(1_000_000_000, 0, b"U-Boot "),
        Lateness(1_000_100_000, 7, 400_000),
        Chunk(1_500_000_000, 7, b"2023.01"),
    ]
    log, index = encode(meta, events)
    (tmp_path / "port.log").write_bytes(log)
    (tmp_path / "port.idx").write_bytes(index)
    monkeypatch.chdir(tmp_path)
    with_numpy, with_boardlab = blocks(CONSOLE, "python")
    names: dict[str, object] = {}
    exec(with_numpy, names)  # noqa: S102 - the page is ours
    assert names["longest_pause_s"] == 0.5
    assert names["meta"]["speed_bd"] == 115200
    exec(with_boardlab, names)  # noqa: S102
    assert capsys.readouterr().out.splitlines()[-1] == "1500000000 7 b'2023.01'"


@pytest.mark.parametrize("enum", [RecordKind, FrameType])
def test_the_page_on_the_console_has_the_numbers_of_the_wire(enum: type[RecordKind | FrameType]) -> None:
    assert {row for row in enum if f"| {row.value} | `{row.name}` |" not in CONSOLE} == set()


def test_the_page_on_the_console_explains_the_first_line_of_an_index() -> None:
    keys = {field.name for field in attrs.fields(RecordingMeta)} | {"format", "version"}
    assert {key for key in keys if f"`{key}`" not in CONSOLE} == set()


def test_the_page_on_the_console_has_every_operation_of_the_server() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \| [^|]*\| [^|]*\|$", CONSOLE.partition("| `op` |")[2], re.MULTILINE))
    listed = set(re.findall(r"^(\w+)\s+\{.*->", operations.__doc__ or "", re.MULTILINE))
    assert documented == listed


def commands() -> set[str]:
    """Every command of `lab`, as `lab ROOM` or `lab ROOM COMMAND`."""
    found = set()
    for room in COMMAND_GROUPS:
        app = getattr(import_module(room.module), room.app)
        for group in app.registered_groups:
            inner = group.typer_instance.registered_commands
            found |= {f"lab {room.name} {group.name} {each.name or each.callback.__name__}" for each in inner}
        names = [each.name or each.callback.__name__.replace("_", "-") for each in app.registered_commands]
        callback = app.registered_callback
        if callback and callback.invoke_without_command is True:
            found.add(f"lab {room.name}")
        alone = len(names) == 1 and not callback
        found |= {f"lab {room.name}"} if alone else {f"lab {room.name} {name}" for name in names}
    return found


def test_the_page_on_the_command_line_lists_every_command() -> None:
    page = man_page.on_page_markdown((DOCS / "cli.md").read_text(encoding="utf-8"))
    assert set(re.findall(r"^\| `(lab [a-z -]+?)(?: [\[A-Z][^`]*)?` \|", page, re.MULTILINE)) == commands()


PAGES = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NAMED_PATH = re.compile(
    r"(?<![\w/.~$:=-])(?:lab|tests|tests_perf|bench|tools|virtual|exporters|farm|envs|strategies)/[\w./-]++(?!::)"
)
NAMED_MODULE = re.compile(r"`((?:lab|virtual|exporters|strategies)(?:\.\w+)+)`")
MADE_BY_INIT = {"tests_perf/README.md"}  # in the folder that `lab init` writes


def paths_in(text: str) -> set[str]:
    """The files and folders of this repository that a text names; mkdocs checks the targets of links."""
    return {found.rstrip("./-") for found in NAMED_PATH.findall(re.sub(r"\]\([^)]*\)", "]", text))} - MADE_BY_INIT


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module of ours, or something that one has."""
    try:
        import_module(dotted)
    except ModuleNotFoundError:
        module, _, name = dotted.rpartition(".")
        return "." in module and hasattr(import_module(module), name)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_file_and_module_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {path for path in paths_in(text) if not (DOCS.parent / path).exists()} == set()
    assert {name for name in NAMED_MODULE.findall(text) if not is_there(name)} == set()


def test_a_path_on_a_page_is_found_and_that_of_another_project_is_not() -> None:
    text = "`lab/host/clock.py`, (tests/unit), see bench/sim.py. ~/lab/x, /dev/lab/y, tests/test_ut.py::test_a"
    assert paths_in(text) == {"lab/host/clock.py", "tests/unit", "bench/sim.py"}
    assert is_there("lab.host.clock.MonotonicRaw")
    assert not is_there("lab.host.sundial")


FLOORS = re.findall(r"^\| (\d+) \| (.+?) \|", (DOCS / "concepts.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_on_concepts_has_the_floors_that_the_import_test_checks() -> None:
    there = {
        (number, room)
        for number, rooms in enumerate(test_import_graph.FLOORS, start=1)
        for room in rooms
        if room != "lab"
        and (path := DOCS.parent / room.replace(".", "/"))
        and (path.is_dir() or path.with_suffix(".py").exists())
    }
    listed = {
        (int(number), path.removesuffix(".py").replace("/", "."))
        for number, cell in FLOORS
        for path in re.findall(r"`([\w/.]+)`", cell)
    }
    assert listed == there


def options_in(page: str) -> set[str]:
    """The options that begin a row of a table on that page."""
    return set(re.findall(r"^\| `(--[\w-]+)", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE))


def test_getting_started_lists_every_option_of_the_plugin() -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_plugin.pytest_addoption(parser)
    assert options_in("getting-started.md") == {o.names()[0] for o in parser.getgroup("boardlab").options}


def test_the_pages_on_virtual_and_simulated_boards_list_every_option_of_up() -> None:
    up = get_command(virtual_commands.app).get_command(None, "up")
    listed = options_in("virtual-boards.md") | options_in("simulated-boards.md")
    assert listed == {p.opts[0] for p in up.params if p.opts[0] not in {"--help", "kind"}}


def test_the_page_on_simulated_boards_lists_every_type_release_and_medium() -> None:
    page = (DOCS / "simulated-boards.md").read_text(encoding="utf-8")
    for name in simulated():
        (row,) = re.findall(rf"^\| `{re.escape(name)}` \|.*$", page, re.MULTILINE)
        releases = load(name).releases
        assert all(release in row for release in releases) or "as above" in row
        assert all(medium.title.split(" (")[0] in row for medium in load(name).media.values())


def test_the_page_on_simulated_boards_names_every_command_of_u_boot() -> None:
    page = (DOCS / "simulated-boards.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| U-Boot \|.*$", page, re.MULTILINE)
    left_out = {"false", "true", "source", "ubifsmount", "ubifsload", "bootz"}
    assert {name for name in TEXTS if f"`{name}`" not in row} == left_out


def test_the_scenario_on_the_page_is_understood(tmp_path: Path) -> None:
    (example,) = blocks((DOCS / "simulated-boards.md").read_text(encoding="utf-8"), "yaml")
    path = tmp_path / "scenario.yaml"
    path.write_text(example, encoding="utf-8")
    assert len(read_scenario(path).of("am62xx_sk-1")) == 2


def test_the_man_page_is_that_of_the_commands() -> None:
    assert man_page.PAGE.read_text(encoding="utf-8") == man_page.text(), "python tools/man_page.py writes it"


def test_the_man_page_has_every_command_and_its_options() -> None:
    text = man_page.text()
    for group in COMMAND_GROUPS:
        assert f".SS lab {group.name}" in text
    assert text.count("\n.SS ") == len(re.findall(r"^\.SS lab [a-z]", text, re.MULTILINE)) > 40
    assert r"\fB\-\-since\fR \fIWHEN\fR" in text
    assert re.search(r"^\.SH EXIT STATUS\n\.TP\n\\fB0\\fR\ndone$", text, re.MULTILINE)
    assert r"\fBLAB_DB, LAB_ARTIFACTS, LAB_SHARED_ARTIFACTS\fR" in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_is_sound_roff() -> None:
    answer = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-z", str(man_page.PAGE)], check=True, capture_output=True, text=True
    )
    assert answer.stderr == ""
