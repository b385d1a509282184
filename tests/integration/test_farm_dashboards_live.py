"""Every query of every dashboard, put to a real Prometheus that scraped the real exporter.

The boots are a real run's, on a simulated board. No suite here measures power or benchmarks on virtual boards; numbers
of these kinds are recorded through the store as a suite would. The rail sensor is a status file as a sampler writes it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from support import dashboards, farm_scrape, recorded_run
from support.dashboards import Query
from support.measuring_lab import running_lab
from support.prometheus_server import Prometheus, program, prometheus, until
from support.virtual_bench import wait_for_listener

from lab.health import BoardCheck, CheckedPart
from lab.health.store import HealthBook
from lab.host import process, status_files
from lab.host.clock import utc_now
from lab.host.status_files import RailStatus
from lab.jobs.queue import JobQueue, Order
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.virtual.ports import free_port

PROGRAMS = Path(sys.executable).parent
DEADLINE_S = 180
TYPE, BOARD = "am62xx_sk", "am62xx_sk-1"
# The judge of histories has said nothing, no schedule has had a success, and of a metric there is one unit.
NOTHING_WRONG = (
    r".*: Verdicts that wait for a decision A",
    r"boardlab-benchmarks: \$metric over time [DFG]",
    r"boardlab-benchmarks: \$metric by board and release [DFGKMN]",
)
QUERIES = [query for name in dashboards.ALL for query in dashboards.queries(name)]


def record(store: Store, release: str, samples: tuple[SampleRecord, ...], kind: str, board: str = BOARD) -> None:
    """A completed run, whose first attempt failed."""
    run = store.begin_run(kind, TYPE, board, release, plan={}, provenance={})
    params = {"medium": "sd"} if kind == "boot" else {}
    before = recorded_run.START - dt.timedelta(seconds=2)
    store.record_attempt(run.id, AttemptRecord(1, 1, params, "silent", "board", True, "", before, 1.0, ()))
    store.record_attempt(run.id, AttemptRecord(1, 2, params, "ok", None, None, "", recorded_run.START, 1.0, samples))
    store.finish_run(run.id, "completed")


def numbers(factor: float) -> tuple[SampleRecord, ...]:
    """Power and a benchmark."""
    mode = {"mode": "deep_sleep"}
    return (
        SampleRecord("power.rail", {**mode, "rail": "VDD_CORE"}, 12.0 * factor, 0.1),
        SampleRecord("power.total", mode, 15.0 * factor, 0.1),
        SampleRecord("power.resume_latency", mode, 140.0 * factor, 1.0),
        SampleRecord("lmbench.bw_mem", {"size": "8m"}, 2000.0 / factor, 1.0),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("live")
    coordinator, exporter = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with (
        running_lab(folder / "lab", "sim", "--type", TYPE, "--time-scale", "0.05") as lab,
        (folder / "coordinator.log").open("wb") as log,
        subprocess.Popen(
            [PROGRAMS / "labgrid-coordinator", "-l", coordinator], cwd=folder, stdout=log, stderr=log
        ) as labgrid,
        contextlib.ExitStack() as stack,
    ):
        try:
            wait_for_listener(coordinator)
            client = [PROGRAMS / "labgrid-client", "-x", coordinator]
            for words in (
                ("-p", BOARD, "create"),
                ("-p", BOARD, "acquire"),
                ("-p", "another", "create"),
                ("-p", "another", "add-match", "labhost/x/*"),
            ):
                subprocess.run([*client, *words], check=True, capture_output=True, timeout=DEADLINE_S)
            # One that waits for its place: labgrid forgets a reservation that its owner asks for no more.
            waiting = subprocess.Popen([*client, "reserve", "--wait", "board=x"], stdout=log, stderr=log)
            stack.callback(stack.enter_context(waiting).terminate)
            env = str(lab.bench.folder / BOARD / "env.yaml")
            arguments = ("--lg-env", env, "--lab-medium", "sd", "--lab-cycles", "2", "--lab-release", "11.01")
            assert lab.pytest(*arguments).wait(DEADLINE_S) == 0, lab.log
            url, runtime = lab.environ["LAB_DB"], Path(lab.environ["BOARDLAB_RUNTIME"])
            with open_store(url) as store:
                boots = (SampleRecord("boot.time", {"medium": "sd"}, 0.5, 0.001, frozenset({"simulated"})),)
                record(store, "10.00", boots, "boot")
                record(store, "10.00", boots, "boot", "another")  # and not with the newest
                record(store, "10.00", numbers(1.0), "suite")
                record(store, "11.01", numbers(1.2), "suite")
                dead = CheckedPart("power", "failed", "pdu_timeout", "lab", "no answer to 'on'")
                HealthBook(store).record(BoardCheck("another", TYPE, "lab1", utc_now(), (dead,)))
                farm_scrape.quarantined(store, "another")
            told = utc_now().timestamp() + 86400  # as long as this lasts, as by a sampler that goes on
            status = RailStatus(BOARD, "VDD_CORE", 1000.0, 5000, 1, told)
            status_files.write(runtime / status_files.RAILS, "rail", status)
            (folder / "farm.yaml").write_text(
                f"pdudaemon: {{address: '{lab.bench.state.pdudaemon}'}}\ncoordinator: {coordinator}\n"
                "usb: [{name: console, id_path: 'pci-0:ff'}]\n"
                f"schedules: [{{name: nightly, env: e, board: {BOARD}}}]\n"
            )
            words = ["--db", url, "--runtime", str(runtime), "--farm", str(folder / "farm.yaml"), "--interval", "1"]
            serve = [PROGRAMS / "lab", "exporter", "--listen", exporter, *words]
            with (
                program(serve, f"http://{exporter}/-/healthy", folder / "exporter.log"),
                prometheus(folder / "prometheus", exporter) as started,
            ):
                until(lambda: started.query('sum(boardlab_collector_up{job="boardlab"}) == 16'), "all sources answer")
                assert lab.pytest(*arguments).wait(DEADLINE_S) == 0, lab.log  # while it is watched: counters rise
                with open_store(url) as store:  # only now: who holds the board keeps others away
                    jobs = JobQueue(store, process.identity(), process.has_died)
                    jobs.start(jobs.enqueue(Order(TYPE, BOARD, ("boot",), env, "", None)).id)
                until(lambda: started.query('boardlab_jobs{state="running"} == 1'), "its job is scraped")
                until(
                    lambda: started.query("boardlab_boot_cycle_duration_seconds_count == 4"), "its boots are scraped"
                )
                until(
                    lambda: started.query('ALERTS{alertname=~"Boardlab.+"}'), "an alert is pending, or fires already"
                )
                yield started
        finally:
            labgrid.terminate()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_a_query_finds_something(server: Prometheus, query: Query) -> None:
    if any(re.fullmatch(where, query.where) for where in NOTHING_WRONG):
        assert server.query(query.expression) == [], (
            "and test_farm_dashboards_drawn.py shows what it looks like when something is"
        )
        return
    if "annotation" in query.where:
        offset = server.query(query.expression.replace("offset 5m", ""))
        assert offset == [], "what is a regression already is not marked again"
    # On a busy machine a source may miss a scrape, and the next one has its series again.
    until(lambda: finds(server, query.expression), query.expression)


def finds(server: Prometheus, expression: str) -> bool:
    """Whether a panel shows a number; one of what is wrong, without its condition: then there is what it looks at."""
    looked_at = expression.replace('alertstate="firing"', 'alertstate=~".+"')  # to fire takes minutes
    found = server.query(expression) or server.query(re.sub(r" > 0\b(?!\.)", "", looked_at))
    return any(one["value"][1] != "NaN" for one in found)


def test_the_target_is_healthy_and_every_source_is_seen(server: Prometheus) -> None:
    (target,) = server.targets()
    assert (target["health"], target["lastError"]) == ("up", "")
    sources = {
        "results", "jobs", "schedules", "console", "outlets", "rails", "disks", "pdudaemon", "coordinator", "usb",
        "verdicts", "failures", "health", "boards", "sizes", "farm_file",
    }  # fmt: skip
    until(
        lambda: {one["metric"]["collector"] for one in server.query("boardlab_collector_up == 1")} == sources,
        f"{sources} are seen",
    )


@pytest.mark.parametrize(
    ("panel", "own", "values"),
    [
        ("boardlab-power: All rails together A", "power.total", {"10.00": 0.015, "11.01": 0.018}),
        ("boardlab-power: Rails A", "power.rail", {"10.00": 0.012, "11.01": 0.0144}),
        ("boardlab-power: Resume latency A", "power.resume_latency", {"10.00": 0.14, "11.01": 0.168}),
        ("boardlab-boot: Boot time by board A", "boot.time", {"10.00": 0.5}),
    ],
)
def test_a_panel_shows_the_numbers_of_the_store(
    server: Prometheus, panel: str, own: str, values: dict[str, float]
) -> None:
    """In the base unit, of each release."""
    (expression,) = (query.expression for query in QUERIES if query.where == panel)
    until(lambda: shown(server, expression, values.keys()) == pytest.approx(values), f"{panel} shows {own}: {values}")


def shown(server: Prometheus, expression: str, releases: Collection[str]) -> dict[str, float]:
    """The board's number of each release."""
    return {
        one["metric"]["release"]: float(one["value"][1])
        for one in server.query(expression)
        if one["metric"]["board"] == BOARD and one["metric"]["release"] in releases
    }
