"""No password of a database's URL is shown, wherever in the URL it stands and whoever shows it."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from lab.cli import main
from lab.errors import BoardlabError, ConfigurationError
from lab.farm import runner
from lab.farm.config import Farm
from lab.pytest_plugin.runs import STORE_KEY, summarise_run
from lab.redaction import redact, scrub
from lab.results import open_store
from lab.results.database import explain
from lab.results.location import locate
from lab.results.snapshot import watch

PASSWORD = "hunter2"  # noqa: S105 - looked for in everything that is said
# Port 1 is nobody's: the connection is refused at once.
URLS = [
    f"postgresql://lab:{PASSWORD}@127.0.0.1:1/results",
    f"postgresql://lab@127.0.0.1:1/results?password={PASSWORD}",
    f"postgresql://lab@127.0.0.1:1/results?connect_timeout=2&PassWord={PASSWORD}",
    f"postgresql://lab@127.0.0.1:1/results?sslpassword={PASSWORD}&connect_timeout=2",
    f"postgresql://lab:x%2F{PASSWORD}%40y@127.0.0.1:1/results",
    f"postgresql://lab:a@{PASSWORD}@127.0.0.1:1/results",
    f"postgresql://lab:a/{PASSWORD}@127.0.0.1:1/results",
    f"postgresql://lab:a?{PASSWORD}@127.0.0.1:1/results",
    f"postgresql://lab:a b {PASSWORD}@127.0.0.1:1/results",
    f"postgresql://lab:a@127.0.0.1:{PASSWORD}@127.0.0.1/results",
    f"postgresql://lab@127.0.0.1:1/results?unknown=1&password={PASSWORD}",
    f"postgresql+asyncpg://lab:{PASSWORD}@db/results",
    f"mysql://lab:{PASSWORD}@db/results",
    f"sqlite://lab:{PASSWORD}@db/results",
    f"host=127.0.0.1 port=1 user=lab password={PASSWORD}",
]
LINKS = [
    f"https://{PASSWORD}@builds.lan/image.wic",
    f"HTTPS://{PASSWORD}@builds.lan/image.wic",
    f"https://builds.lan/image.wic?X-Amz-Date=1&X-Amz-Signature={PASSWORD}",
    f"https://builds.lan/image.wic?private_token={PASSWORD}&a=b",
    f"https://builds.lan/image.wic?api_key={PASSWORD}",
    f"https://builds.lan/image.wic?sv=1&sig={PASSWORD}",
]


@pytest.mark.parametrize("url", URLS)
def test_no_form_of_a_url_shows_its_password(url: str) -> None:
    assert PASSWORD not in redact(url)
    assert PASSWORD not in redact(f"see {url.replace(' ', '%20')}, which is down") or url.startswith("host=")
    assert "***" in redact(url)


@pytest.mark.parametrize("url", LINKS)
def test_what_lets_into_a_web_server_is_hidden_too(url: str) -> None:
    assert PASSWORD not in redact(url)
    assert "builds.lan/image.wic" in redact(url)
    assert PASSWORD not in redact(f"see {url} there")
    assert PASSWORD not in scrub(f"no answer from builds.lan for {PASSWORD}", url)


@pytest.mark.parametrize(
    "url",
    [
        "/var/lib/results.db",
        "sqlite:///a.db",
        "postgresql://lab@db:5432/results?sslmode=require",
        "http://[::1]:80/",
        "http://h/@x?design=a&keys=b",
    ],
)
def test_a_url_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert redact(url) == url
    assert redact(f"see {url} there") == f"see {url} there"


@given(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="*"), min_size=8))
def test_any_password_is_hidden(password: str) -> None:
    url = f"postgresql://lab:{password}@db:5432/results"
    assert redact(url) == "postgresql://lab:***@db:5432/results"
    assert password not in scrub(f"invalid integer value {password!s} for option", url)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "words",
    [
        ["results", "list"],
        ["results", "show", "1"],
        ["results", "export"],
        ["results", "recordings", "1"],
        ["report", "1"],
        ["guide", "write", "--release", "1"],
        ["guide", "compare", "1", "2"],
    ],
    ids=" ".join,
)
def test_no_command_shows_it(
    url: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--db", url]) in {1, 2}
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert PASSWORD not in said.out + said.err


@pytest.mark.parametrize("url", URLS)
def test_no_error_holds_it_not_even_its_traceback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_DB", url)
    with pytest.raises(BoardlabError) as caught:
        open_store()
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in repr(caught.value)


@pytest.mark.parametrize("url", URLS[:5])
def test_a_location_shows_it_in_no_form(url: str) -> None:
    location = locate(url)
    watcher = watch(url)
    for shown in (location.name, repr(location), str(location), repr(watcher), repr(location.url.set(query={}))):
        assert PASSWORD not in shown
    assert "127.0.0.1:1/results" in location.name


def test_a_password_of_the_query_is_still_used() -> None:
    location = locate(URLS[1])
    assert location.url.password == PASSWORD
    assert location.url.query == {}


def test_what_the_driver_says_is_scrubbed() -> None:
    location = locate("postgresql://lab:a%2Fhunter2@db/results")

    def said(cause: Exception) -> str:
        return str(explain(DBAPIError("SELECT 1", None, cause), location))

    assert PASSWORD not in said(ValueError("bad value a/hunter2 in connection string"))
    assert PASSWORD not in said(ValueError("invalid: postgresql://lab:a%2Fhunter2@db/results"))


@define
class Reporter:
    """pytest's terminal reporter and configuration, as far as the closing lines need them."""

    stash: dict[Any, Any]
    option: Any
    lines: list[str] = field(factory=list)
    args: tuple[str, ...] = ("tests_perf",)
    invocation_params: Any = field(factory=lambda: SimpleNamespace(dir=Path("/")))

    def write_line(self, line: str, **_markup: bool) -> None:
        self.lines.append(line)

    def section(self, title: str) -> None:
        self.lines.append(title)


@define
class Options:
    """The options that the closing lines show."""

    lab_db: str
    lg_env: str = "envs/virtual.yaml"
    inifilename: str | None = None


def test_pytest_s_closing_lines_say_how_to_go_on_without_it(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("boot", "am62xx_sk-fs", "one", "11.01", plan={}, provenance={})
        store.finish_run(run.id, "interrupted")
        reporter: Any = Reporter({STORE_KEY: store}, Options(URLS[0]))
        summarise_run(reporter, reporter, "boot time", run.id)
    text = "\n".join(reporter.lines)
    assert PASSWORD not in text
    assert f"--lab-resume {run.id} --lab-db 'postgresql://lab:***@127.0.0.1:1/results'" in text


def test_a_job_s_pytest_gets_the_database_where_no_other_user_reads_it(tmp_path: Path) -> None:
    job: Any = SimpleNamespace(called="j1", env="b1.yaml", options={}, release="", cycles=1)
    (tmp_path / "test_boot.py").touch()
    assert runner.environment(job, URLS[0], 0.0, {})["LAB_DB"] == URLS[0]
    assert PASSWORD not in " ".join(runner.command(job, tmp_path, "boot", None))


@pytest.mark.parametrize("url", [URLS[0], URLS[1], f"postgresql://lab:%{PASSWORD}@db/x"])
def test_a_farm_whose_units_would_show_it_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"database: .*\*\*\*") as caught:
        Farm(database=url)
    assert PASSWORD not in str(caught.value)


def test_json_of_an_error_free_store_has_no_url_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.db"
    with open_store(str(path)) as store:
        store.begin_run("boot", "am62xx_sk-fs", "one", "11.01", plan={}, provenance={})
    assert main(["results", "show", "1", "--json", "--db", str(path)]) == 0
    assert "://" not in json.dumps(json.loads(capsys.readouterr().out))


def test_options_that_nobody_knows_are_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"plugin=nonsense: .*mend"):
        open_store("postgresql://lab@db/results?plugin=nonsense")
