"""Whose numbers a guide holds and of which release, where its tables do not say: what else may say so, and that it is told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from support import guide_generator as generator
from support.atlength import either
from support.facts import missing_facts
from support.guide_family import import_guide, mini, table
from support.guide_forms import FORMS
from support.guide_generator import Generated

from lab.cli import main
from lab.errors import ConfigurationError
from lab.guide import measurements
from lab.guide.check.importer import Imported
from lab.guide.model import Guide
from lab.guide.read import reader
from lab.guide.write import rst_writer, stored_release
from lab.judge.labels import release_key
from lab.results import Store, open_store

NAMELESS = table("Benchmarks,perf", "linpack (Kflops),300.00", title="Linpack Benchmarks")
NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as opened:
        yield opened


def put(store: Store, path: Path, text: str, release: str | None = None, board: str | None = None) -> list[Imported]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return import_guide(store, path, release, board, NOW)


@pytest.mark.parametrize(
    ("file", "title", "modules", "board", "source"),
    [
        ("guide.rst", "AM62x Linux 11.01 Performance Guide", [], "am62x", "title"),
        ("guide.rst", "Linux 11.01 Performance Guide", [("AM65x EVM", "one")], "am65x", "modules"),
        ("am65x-09.03-rt.rst", "RT-linux Performance Guide", [], "am65x", "file name"),
        ("J721E/rt/guide_11_01.rst", "RT-linux Performance Guide", [], "j721e", "folder"),
    ],
)
def test_a_guide_without_a_board_is_of_the_device_that_it_names(
    store: Store, tmp_path: Path, file: str, title: str, modules: list[tuple[str, str]], board: str, source: str
) -> None:
    (done,) = put(store, tmp_path / file, mini(NAMELESS, title=title, modules=modules))
    assert (done.board, done.board_source, done.samples) == (board, source, 1)
    (run,) = store.runs()
    assert (run.board, run.provenance["board_source"]) == (board, source)


@pytest.mark.parametrize("name", ["guide.rst", "sdk11_v2024.rst", "am62x_am64x.rst", "data2024.rst"])
def test_two_devices_or_none_are_not_guessed(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"numbers.*--board"):
        put(store, tmp_path / name, mini(NAMELESS))
    assert [one.board for one in put(store, tmp_path / name, mini(NAMELESS), board="a1-fs")] == ["a1-fs"]


@pytest.mark.parametrize(
    ("file", "text", "release", "source"),
    [
        ("g.rst", mini(NAMELESS, title="Linux 09.02.00 Performance Guide"), "09.02.00", "title"),
        ("am62x-09.02.rst", mini(NAMELESS, title="Linux Performance Guide"), "09.02", "file name"),
        ("g.rst", mini(NAMELESS, title="Performance Guide") + "\nProcessor SDK 08.06 for AM62x\n", "08.06", "text"),
    ],
)
def test_the_release_is_found_with_its_source(
    store: Store, tmp_path: Path, file: str, text: str, release: str, source: str
) -> None:
    (done,) = put(store, tmp_path / file, text, board="a1-fs")
    assert (done.release, done.release_source) == (release, source)
    (run,) = store.runs()
    assert (run.release, run.provenance["release_source"]) == (release, source)


def test_a_guide_without_a_release_needs_to_be_given_one(store: Store, tmp_path: Path) -> None:
    text = mini(NAMELESS, title="Performance Guide")
    with pytest.raises(ConfigurationError, match="say it with --release"):
        put(store, tmp_path / "g.rst", text, board="a1-fs")
    assert put(store, tmp_path / "g.rst", text, "7.3", "a1-fs")[0].release_source == "given"


def test_the_command_says_what_it_took_from_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_DB", str(tmp_path / "results.db"))
    path = tmp_path / "am62x-09.02.rst"
    path.write_text(mini(NAMELESS, title="Performance Guide"))
    assert main(["guide", "import", str(path)]) == 0
    assert not missing_facts(capsys.readouterr().out, "run 1: am62x", "file name", "09.02", "file name", "1 number")


def test_a_release_is_found_by_its_short_name(store: Store, tmp_path: Path) -> None:
    put(store, tmp_path / "g.rst", mini(NAMELESS), "09.02.00", "a1-fs")
    assert stored_release.load_sheet(store, "09.02").guide.boards == ()
    assert len(stored_release.collect(store, "9.2", ()).entries) == 1
    assert release_key("09.02.01") != release_key("09.02")


@settings(max_examples=either(6, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(guide=generator.guides())
@pytest.mark.parametrize("form", ["rst", "html"])
def test_a_built_guide_survives_import_and_writing(tmp_path: Path, form: str, guide: Generated) -> None:
    with open_store(str(tmp_path / "round.db")) as store:
        path = tmp_path / "guide.txt"
        path.write_text(FORMS[form](guide.text))
        release = f"1.{len(store.runs())}"
        import_guide(store, path, release, None, NOW)
        read = reader.parse("g", rst_writer.write(stored_release.collect(store, release, ())))
    assert texts(read) == texts(reader.parse("g", generator.rst(guide)))


def texts(guide: Guide) -> Mapping[object, str]:
    return {(r.board, r.key): r.cell.value.text for r in measurements.of_guide(guide).readings if r.number is not None}


def test_two_kernels_of_one_release_are_two_releases(store: Store, tmp_path: Path) -> None:
    faster = table("Benchmarks,perf", "linpack (Kflops),400.00", title="Linpack Benchmarks")
    put(store, tmp_path / "g.rst", mini(NAMELESS, title="Linux 09.03 Performance Guide"), board="a1-fs")
    (done,) = put(store, tmp_path / "r.rst", mini(faster, title="RT-linux 09.03 Performance Guide"), board="a1-fs")
    assert done.release == "09.03-rt"
    values = {
        name: [e.value for e in stored_release.collect(store, name, ()).entries] for name in ("09.03", "09.03-rt")
    }
    assert values == {"09.03": [300.0], "09.03-rt": [400.0]}
    assert release_key("09.03") < release_key("09.03-rt") < release_key("09.03.01")
    assert release_key("9.3-rt") == release_key("09.03.00-rt")
