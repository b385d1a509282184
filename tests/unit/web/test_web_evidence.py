"""A run's page in the site: its files by digest, its numbers as files, and what the rails drew."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from attrs import evolve
from support import recorded_run
from support.railbench import RailBench
from support.web_serving import serving

from lab.host.clock import utc_now
from lab.rails import AdcRange
from lab.results import AttemptRecord, Moment, SampleRecord, open_store
from lab.results.listing import overview
from lab.results.records import POWER_TRACE
from lab.web.rails import power_of
from lab.web.site import Site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    bench = RailBench()
    phases = bench.record(folder / "power.trace", AdcRange.ACTIVE, ("idle", 2.0), ("boot", 2.0))
    with open_store(str(folder / "results.db")) as store:
        recorded_run.record(store, virtual=False, cycles=2)
        run = store.begin_run("low_power", "am62xx_lp_sk", "b", "11.01", plan={}, provenance={})
        trace = store.artifacts.put((folder / "power.trace").read_bytes(), kind=POWER_TRACE)
        moments = (
            Moment("asleep", phases[1][1], 1000, 10, "suspend"),
            Moment("late", 10**18, 1000, 20, "x"),
        )
        record = AttemptRecord(
            *(1, 1, {"mode": "idle"}, "ok", None, None, "", utc_now(), 4.0),
            (SampleRecord("boot.time", {"medium": "sd"}, 2.0, 0.001),),
            artifacts=(trace,),
            moments=moments,
        )
        store.record_attempt(run.id, record)
        store.record_attempt(run.id, evolve(record, cycle=2))
        store.finish_run(run.id, "completed")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(Site(str(folder / "results.db"), runtime=folder / "runtime", folder=folder)) as address:
        yield address


def get(address: str) -> requests.Response:
    return requests.get(address, timeout=60)


def test_each_file_of_an_attempt_is_given_by_its_digest_and_is_never_shown_by_the_browser(
    url: str, folder: Path
) -> None:
    with open_store(str(folder / "results.db")) as store:
        wanted = {ref.sha256 for attempt in store.attempts(1) for ref in attempt.artifacts}
        found = set(re.findall(r'download href="/artifacts/([0-9a-f]{64})"', get(f"{url}/runs/1").text))
        assert found == wanted
        for sha256 in sorted(wanted):
            answer = get(f"{url}/artifacts/{sha256}")
            assert answer.content == store.artifacts.read(sha256)
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "asked",
    [
        "..%2f..%2fresults.db",
        "../results.db",
        "%2e%2e/results.db",
        "/etc/passwd",
        "a" * 63,
        "A" * 64,
        "g" * 64,
        "a" * 65,
    ],
)
def test_no_path_leaves_the_artifact_store(url: str, asked: str) -> None:
    request = requests.Request("GET", url).prepare()
    request.url = f"{url}/artifacts/{asked}"  # as it stands: a library would tidy it
    assert requests.Session().send(request, timeout=60).status_code in {404, 422}


def test_a_file_that_lies_there_but_is_no_attempts_is_not_given(url: str, folder: Path) -> None:
    with open_store(str(folder / "results.db")) as store:
        own = store.artifacts.put(b"nobody's", kind="other")
    assert get(f"{url}/artifacts/{own.sha256}").status_code == 404


def test_a_damaged_file_is_said(url: str, folder: Path) -> None:
    with open_store(str(folder / "results.db")) as store:
        path = store.artifacts.path(store.attempts(1)[0].artifacts[0].sha256)
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole + b"x")
    try:
        answer = get(f"{url}/artifacts/{path.parent.name}{path.name}")
        assert (answer.status_code, "is damaged" in answer.text) == (503, True)
    finally:
        path.write_bytes(whole)


def test_the_numbers_of_a_run_are_there_as_files(url: str) -> None:
    text = get(f"{url}/runs/1").text
    assert 'href="/runs/1/samples.csv"' in text
    assert "base64" not in text, "the page is not twice as large for it"
    rows = list(csv.DictReader(io.StringIO(get(f"{url}/runs/1/samples.csv").text)))
    assert {row["run"] for row in rows} == {"1"}
    (said,) = re.findall(r'download="run-1-verdict.json" href="([^"]*)"', text)
    assert get(url + said).json()["run"] == 1
    whole = get(f"{url}/runs/1/run.json").json()
    assert len(rows) == sum(len(attempt["samples"]) for attempt in whole["runs"][0]["attempts"])
    assert get(f"{url}/runs/99/samples.csv").status_code == 404


def test_the_rails_stand_under_the_moments_of_the_console(url: str, folder: Path) -> None:
    with open_store(str(folder / "results.db")) as store:
        (figure,) = power_of(overview(store, 2), store.artifacts)  # of two cycles the first
    assert [moment.name for moment in figure.moments] == ["asleep"], "a moment outside of the trace has no place in it"
    middle = (figure.across[0].at + figure.width - 8) / 2
    assert figure.moments[0].x == pytest.approx(middle, abs=figure.width / 50)
    idle, boot = RailBench().watts("idle"), RailBench().watts("boot")
    for line in figure.lines:
        expected = 500 * (idle[line.rail] + boot[line.rail])
        assert float(line.mean) == pytest.approx(expected, rel=0.15, abs=5)
    page = get(f"{url}/runs/2").text
    assert '<h2 id="power">' in page
    assert page.count("<polyline") >= len(figure.lines)
    assert '<h2 id="power">' not in get(f"{url}/runs/1").text
