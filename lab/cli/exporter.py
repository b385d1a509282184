"""`lab exporter`: results and farm for Prometheus, as a long-running process."""

from __future__ import annotations

import gc
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event
from typing import Annotated, Final

import typer
from attrs import evolve
from prometheus_client import Metric

from exporters.farm.boards import ExportedBoard, families
from exporters.farm.host import UsbDevice
from exporters.farm.schedules import ScheduledRun
from exporters.poller import Poller
from exporters.server import ExporterServer
from exporters.sources import OptionalSources, Sources, host_sources, sources
from lab.cli.options import Runtime, WebConfigFile
from lab.errors import ConfigurationError
from lab.farm import job_request, services
from lab.farm.board_state import BoardNow
from lab.farm.config import Exporter, Farm, Schedule
from lab.farm.loaded_config import record_loaded, restart_process
from lab.farm.services import HostFile
from lab.farm.status import boards_of
from lab.host.clock import MonotonicRaw
from lab.host.runtime import runtime_dir
from lab.http.web_config import check_address, load
from lab.judge.known_failures import KnownFailure, recognise
from lab.judge.latest import LatestJudge, WorseNumber
from lab.judge.text import EvidenceLinks
from lab.results.listing import LatestEnded
from lab.results.location import locate
from lab.results.snapshot import watch
from lab.results.store import SharedStore
from lab.terminal import echo, log_to

DEFAULT_LISTEN: Final = "127.0.0.1:9870"
# Of gc.set_threshold: Python's 700 make the first read of a large store a third longer.
_GARBAGE: Final = (50_000, 20, 20)
_JUDGING_S: Final = 5.0  # of a look, for comparisons; the next look goes on
SWITCH_S: Final = 0.0005  # a scrape must not wait for threads that render or read: a tenth of Python's own interval

app = typer.Typer(help="Results and farm for Prometheus.", no_args_is_help=False)


def optional_sources(farm: Farm | None, host: str = "") -> OptionalSources:
    """Things that a farm.yaml names for a host; none without one.

    Args:
        host: empty: the first, which has the results, the schedules and the coordinator's metrics.
    """
    if farm is None:
        return OptionalSources()
    name = host or farm.first_host
    own_devices = [device for device in farm.usb if (device.host or farm.first_host) == name]
    usb = [UsbDevice(device.name, device.kind, device.id_path) for device in own_devices]
    if name != farm.first_host:
        return OptionalSources(pdudaemon=farm.own_pdudaemon, usb=usb)
    due = [_due(schedule) for schedule in farm.timed]
    evidence = EvidenceLinks(farm.run_page)
    return OptionalSources(
        *(due, farm.pdudaemon.address, farm.coordinator, usb, evidence, farm.health.rule, farm.health.reference),
        known_failures=farm.known,
        backup=farm.backup is not None,
    )


def _due(schedule: Schedule) -> ScheduledRun:
    suites = job_request.expand(schedule.suites)
    return ScheduledRun(
        schedule.name,
        schedule.board,
        suites,
        tuple(job_request.kind(suite) for suite in suites),
        schedule.release,
        schedule.interval_s,
        schedule.last_start,
        schedule.cycles,
        schedule.options,
    )


@app.command()
def exporter(
    *,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", help="The results (default: farm.yaml's, $LAB_DB, else ~/.local/share/boardlab)."
        ),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help=f"Where to listen (default: {DEFAULT_LISTEN}).")
    ] = None,
    web_config: WebConfigFile = None,
    farm: Annotated[Path | None, typer.Option(metavar="FILE", help="farm.yaml: further things to monitor.")] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="NAME",
            help="This host's name in farm.yaml: of any but the first, only its own devices and programs.",
        ),
    ] = "",
    runtime: Runtime = None,
    interval: Annotated[float, typer.Option(min=0.1, metavar="S", help="Poll interval.")] = 15.0,
) -> None:
    """Serve results and farm to Prometheus until SIGTERM or Ctrl-C.

    When farm.yaml says something else, the exporter loads it; where it is wrong, the collector `farm_file` is down.
    """
    if host and farm is None:
        raise ConfigurationError(f"--host {host}: say of which farm: --farm FILE")
    its_file = services.host_file(farm, host) if farm else HostFile(None, installed=False)
    host_config = its_file.farm
    from_farm = host_config.exporter if host_config else Exporter()
    config_file = web_config or (Path(from_farm.web_config) if from_farm.web_config else None)
    protection = load(config_file) if config_file else None
    its_listen = host_config.exporter_of(host) if host_config else from_farm.listen
    where, port = address(listen or its_listen)
    check_address(where, protection)
    log_to(sys.stderr)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    database = db or (host_config.database if host_config else None)
    folder = runtime or runtime_dir()
    asked, newer = _sources(its_file, host, database, folder, interval), Event()
    if farm is not None and host_config is not None:
        loaded = record_loaded("exporter", farm, host_config, folder)

        def look() -> list[Metric]:
            if loaded.is_older():
                newer.set()
                server.shutdown()
            return []

        asked.live.append(Poller("farm_file", look, interval, MonotonicRaw()))
    server = ExporterServer(where, port, asked.exposition(), protection)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: server.shutdown())
    sys.setswitchinterval(SWITCH_S)
    asked.start()
    echo(f"serving {server.url}")
    try:
        server.serve_forever()
    finally:
        server.close()
        asked.stop()
    if newer.is_set():
        echo(f"{farm} says something else now: it is loaded")
        restart_process()
    echo("ending")


def _sources(its_file: HostFile, host: str, database: str | None, runtime: Path, interval_s: float) -> Sources:
    farm = its_file.farm
    if farm is not None and host not in {"", farm.first_host}:
        data = locate(database).artifacts
        return host_sources(data, runtime, optional_sources(farm, host), interval_s, MonotonicRaw())
    ended, judge, results = LatestEnded(), LatestJudge(_JUDGING_S), SharedStore()
    known_failures = () if farm is None else farm.known

    def read_boards() -> list[Metric]:
        """The boards' states, as `lab status` has them."""
        boards = boards_of(its_file, database, runtime, ended, judge, results.store_at)
        return families(export_boards(boards, known_failures))

    optional = evolve(optional_sources(farm), boards=read_boards)
    return sources(watch(database), runtime, optional, interval_s, MonotonicRaw())


def export_boards(boards: Iterable[BoardNow], known_failures: Sequence[KnownFailure] = ()) -> list[ExportedBoard]:
    """The boards with their states, for Prometheus.

    Args:
        known_failures: the lab's known failures.
    """
    return [
        ExportedBoard(
            board.board,
            board.board_type,
            (state := board.state).name,
            state.cause,
            state.fault,
            state.since,
            len(board.worse) if board.is_judged else None,
            {"": 0}
            | Counter(
                _failure_state(known_failures, board.board_type, number)
                for number in board.worse
                if number.is_confirmed
            )
            if board.is_judged
            else {},
        )
        for board in boards
    ]


def _failure_state(known_failures: Sequence[KnownFailure], board_type: str, number: WorseNumber) -> str:
    """The state of a worse number's known failure; empty: it is none."""
    higher = (number.effect or 0.0) > 0
    failures = (
        failure
        for failure in known_failures
        if failure.is_number(board_type, number.metric, higher=higher, worse=True)
    )
    state = recognise(failures, number.release)
    return "" if state is None else state.state.value


def address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Host and port of 127.0.0.1:9870 or [::1]:9870.

    Args:
        option: where it stands, for messages.

    Raises:
        ConfigurationError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{option} {text}: expected ADDRESS:PORT, e.g. {DEFAULT_LISTEN} or [::1]:9870")
    return host.removeprefix("[").removesuffix("]"), int(port)
