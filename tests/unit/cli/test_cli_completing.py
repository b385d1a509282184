"""A shell completes values: environments, suites, board types, boards, runs, ports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from lab import boards
from lab.cli import completion, main
from lab.host import process
from lab.jobs.queue import JobQueue
from lab.jobs.records import Order
from lab.results import open_store

Offered = Callable[..., list[str]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab's folder with environments, a suite of its own and two runs."""
    folder = tmp_path_factory.mktemp("lab")
    for name in ("envs/am62x.yaml", "envs/am65x.yaml", "tests_perf/test_boot.py", "tests_perf/test_mine.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    with open_store(str(folder / "results.db")) as store:
        for board, release in (("am62x-1", "11.00"), ("am65x-1", "11.01")):
            store.begin_run("boot", "am62xx_sk", board, release, plan={}, provenance={})
        order = Order("am62xx_sk", "am62x-1", ("boot",), "am62x.yaml", "11.01", None)
        JobQueue(store, process.identity(), process.has_died).enqueue(order)
    return folder


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Offered:
    """What a shell would offer for the last word of a line."""

    def ask(lab: Path, line: str, shell: str = "bash") -> list[str]:
        asked = {
            "bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))},
            "zsh": {"_TYPER_COMPLETE_ARGS": line},
            "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        }[shell]
        places = {"LAB_DB": str(lab / "results.db"), "BOARDLAB_RUNTIME": str(lab / "none")}
        for name, value in {**places, **asked, "_LAB_COMPLETE": f"complete_{shell}"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(lab)
        main([])
        answer = capsys.readouterr()
        assert answer.err == ""
        return answer.out.split("\n")[:-1] if answer.out.strip() else []

    return ask


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("lab run --env ", ["am62x.yaml", "am65x.yaml"]),
        ("lab run --env am65", ["am65x.yaml"]),
        ("lab run --suite ", ["guide", "boot", "low_power", "sections", "mine"]),
        ("lab run --suite boot,m", ["boot,mine"]),
        ("lab power off --env ", ["am62x.yaml", "am65x.yaml"]),
        ("lab env check --env ", ["am62x.yaml", "am65x.yaml"]),
        ("lab results show ", ["2", "1"]),
        ("lab report ", ["2", "1"]),
        ("lab report 2 --against ", ["2", "1", "11.00", "11.01"]),
        ("lab judge run ", ["2", "1"]),
        ("lab jobs show ", ["j1"]),
        ("lab jobs cancel j", ["j1"]),
        ("lab run --resume ", ["j1"]),
        ("lab results list --board ", ["am62x-1", "am65x-1"]),
        ("lab results list --release 11.01", ["11.01"]),
        ("lab results list --status in", ["interrupted"]),
        ("lab console replay --board am62a", ["am62axx_sk"]),
    ],
)
def test_values_are_completed(offered: Offered, lab: Path, line: str, values: list[str]) -> None:
    assert offered(lab, line) == values


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_show_what_a_value_is(offered: Offered, lab: Path, shell: str) -> None:
    said = "\n".join(offered(lab, "lab results show ", shell))
    assert "boot am65x-1 11.01 running" in said


def test_without_results_nothing_is_offered_and_nothing_is_made(offered: Offered, tmp_path: Path) -> None:
    (tmp_path / "envs").mkdir()
    assert offered(tmp_path, "lab results show ") == []
    assert not (tmp_path / "results.db").exists()


def test_every_command_that_takes_one_of_these_offers_it() -> None:
    app = typer.Typer()

    @app.command()
    def command(env: str, medium: str = typer.Option(""), other: str = "") -> None:
        """Neither is annotated as ours are."""

    completion.attach(app)  # parameters without Annotated are left alone
    assert dict(completion._types({})).keys() == set(boards.names())
    assert "sd" in dict(completion._media({}))


def test_ports_are_offered_where_no_server_runs(tmp_path: Path) -> None:
    assert all(value.startswith("/dev/tty") for value, _ in completion._ports({"runtime": tmp_path}))
