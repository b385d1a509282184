"""Numbers for the store: fio's, iperf3's and boardlab's JSON, CSV, and what other packages read.

A file becomes runs of its own, marked as imported; nothing of a wrong file is recorded. Each form has a function that
yields the file's numbers; `read_runs` makes runs of them.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.host.clock import utc_now
from lab.metrics import Flag, Metric, SampleRecord, catalogue
from lab.metrics.lab_metrics import Declarations
from lab.metrics.model import LARGEST, sample_of
from lab.results.formatting import FORMAT as EXPORT
from lab.results.records import LAST_ID, OK, AttemptRecord
from lab.results.store import WholeRun

KIND: Final = "imported"  # of the runs, where the file names none
PARAMETER: Final = "imported"  # of the attempts: what wrote the file
_LARGEST: Final = 256 << 20  # bytes of a file
_MOST_CYCLES: Final = 100_000


@frozen
class ImportTarget:
    """Facts on imported numbers that their file may lack; empty: it must have them.

    Attributes:
        one_run: the files are the cycles of one run, in their order.
    """

    board: str = ""
    board_type: str = ""
    release: str = ""
    one_run: bool = False
    declarations: Declarations = field(factory=Declarations)


@frozen
class _Reading:
    """A number of a file.

    Attributes:
        cycle: of its run, from 1.
        run: the file's name of its run; empty: the file is one.
        run_fields: `_RUN_FIELDS` as the file has them; what it does not say is missing.
        at: when it was measured; None: the file does not say.
        virtual: it is of a virtual board.
    """

    sample: SampleRecord
    cycle: int = 1
    run: str = ""
    run_fields: Mapping[str, str] = field(factory=dict)
    at: dt.datetime | None = None
    virtual: bool = False


@frozen
class _ReadFile:
    """A file's numbers, with its path, form and SHA-256."""

    path: Path
    form: str
    digest: str
    readings: Sequence[_Reading]


@frozen
class ImportForm:
    """A form of files that another package reads.

    Attributes:
        mark: bytes that only such a file has.
        samples: the numbers of such a file's contents.
    """

    mark: bytes
    samples: Callable[[bytes], Iterable[SampleRecord]]


class _WrongError(Exception):
    """An error in a file, from its place on, e.g. ":3: ...".

    `read_runs` puts the path before it.
    """


def read_runs(
    files: Sequence[Path], target: ImportTarget, form: str = "", more: Mapping[str, ImportForm] = {}
) -> list[WholeRun]:
    """The runs of these files, the oldest first.

    Args:
        target: what the files do not say.
        form: one of `FORMATS` or of `more`; empty: by the contents.
        more: name -> a form that another package reads.

    Raises:
        ConfigurationError: a file is wrong, says nothing that can be recorded, or lacks what `target` does not say.
    """
    dated_runs: list[tuple[dt.datetime, WholeRun]] = []
    together: dict[str, list[_ReadFile]] = {}  # files that may share runs
    for path in files:
        data = _read_bytes(path)
        name = form or _detect_form(path, data, more)
        try:
            if name in more:
                readings = [_Reading(sample) for sample in more[name].samples(data)]
            else:
                readings = list(FORMATS[name](data, target.declarations))
        except _WrongError as error:
            raise ConfigurationError(f"{path}{error}") from error
        except BoardlabError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if not readings:
            raise ConfigurationError(
                f"{path}: {name} measured nothing in it: every job failed, or the file is of something else"
            )
        key = name if target.one_run else str(path)
        together.setdefault(key, []).append(_ReadFile(path, name, hashlib.sha256(data).hexdigest(), readings))
    for group in together.values():
        dated_runs += _runs(group, target)
    return [run for _, run in sorted(dated_runs, key=lambda dated: dated[0])]


def _runs(group: Sequence[_ReadFile], target: ImportTarget) -> Iterator[tuple[dt.datetime, WholeRun]]:
    """The runs of files of one form, each with its start.

    With `one_run` each file is a cycle.

    Raises:
        ConfigurationError: the numbers of a run contradict one another, or nothing says whose they are.
    """
    by_run: dict[str, list[tuple[int, _Reading]]] = {}
    for number, read_file in enumerate(group):
        for reading in read_file.readings:
            cycle = number + reading.cycle if target.one_run else reading.cycle
            by_run.setdefault(reading.run, []).append((cycle, reading))
    file, form = group[0].path, group[0].form
    digests = {read_file.path.name: read_file.digest for read_file in group}
    for run, numbered in by_run.items():
        first = numbered[0][1]
        at = min((reading.at for _, reading in numbered if reading.at is not None), default=None) or utc_now()
        for key in _RUN_FIELDS:
            values = sorted({reading.run_fields[key] for _, reading in numbered if reading.run_fields.get(key)})
            if len(values) > 1:
                raise ConfigurationError(
                    f"{file}: {key} of one run is {values[0]!r} and {values[1]!r}; a column `run` tells runs apart"
                )
        fields = {
            key: getattr(target, key) or first.run_fields.get(key, "") for key in ("board", "board_type", "release")
        }
        for key, value in fields.items():
            if not value:
                raise ConfigurationError(
                    f"{file}: nothing says the {key.replace('_', ' ')} of its numbers: "
                    f"give --{key.removeprefix('board_')}"
                )
        virtual = any(reading.virtual for _, reading in numbered)
        record = WholeRun(
            kind=first.run_fields.get("kind") or KIND,
            **fields,
            plan={"imported": sorted(digests)},
            provenance={"virtual": virtual, "imported": {"format": form, "files": digests, "run": run}},
            attempts=tuple(_attempts(numbered, form, at)),
            started_at=at,
        )
        yield at, record


def _attempts(numbered: Sequence[tuple[int, _Reading]], form: str, at: dt.datetime) -> Iterator[AttemptRecord]:
    """A good attempt for each cycle.

    A cycle without a time has the run's start, `at`.
    """
    cycles: dict[int, list[_Reading]] = {}
    for cycle, reading in numbered:
        cycles.setdefault(cycle, []).append(reading)
    for cycle, readings in sorted(cycles.items()):
        yield AttemptRecord(
            cycle=cycle,
            number=1,
            params={PARAMETER: form},
            outcome=OK,
            fault=None,
            transient=None,
            message="",
            started_at=next((reading.at for reading in readings if reading.at is not None), at),
            duration_s=0.0,
            samples=tuple(reading.sample for reading in readings),
        )


def _read_bytes(file: Path) -> bytes:
    try:
        if file.stat().st_size > _LARGEST:
            raise ConfigurationError(f"{file}: larger than {_LARGEST >> 20} MiB; split it")
        return file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror}; check the path") from error


def _detect_form(file: Path, data: bytes, more: Mapping[str, ImportForm]) -> str:
    """The name of a file's form, by its contents.

    Raises:
        ConfigurationError: it fits none.
    """
    for name, form in more.items():
        if form.mark in data:
            return name
    head = data[:4096]
    header = head.partition(b"\n")[0]
    is_markup = header.startswith(b"<") or b"{" in header
    if not is_markup and (b"metric" in header or (b"," in head and b"{" not in head)):
        return "csv"
    if json.dumps(EXPORT).encode() in head:
        return "boardlab"
    if b'"fio version"' in data:
        return "fio"
    if b'"intervals"' in data or b'"test_start"' in data or b'"iperf' in data:
        return "iperf3"
    raise ConfigurationError(
        f"{file}: none of {', '.join((*FORMATS, *more))} by its contents, and a CSV needs a header; say which with "
        "--format. Of boardlab's exports --json and --csv have every number"
    )


def _documents(data: bytes) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a file, one after the other; warnings before one are left out, as fio prints them.

    Raises:
        _WrongError: no object, or a broken one.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _WrongError(f": not UTF-8 at byte {error.start}") from error
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    at = text.find("{")
    if at < 0:
        raise _WrongError(": no JSON object in it; run fio with --output-format=json, iperf3 with -J")
    while at >= 0:
        try:
            document, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            raise _WrongError(
                f":{line}: broken JSON: {getattr(error, 'msg', error)}; was the program killed?"
            ) from error
        yield document
        at = text.find("{", end)


def _no_constant(name: str) -> float:
    """Refuse NaN and Infinity, which RFC 8259 does not have.

    Python's JSON would take them.
    """
    raise ValueError(f"{name} is no number")


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, without two values for a key.

    Python's JSON would take the last one.

    Raises:
        _WrongError: a key has two values.
    """
    document: dict[str, Any] = {}
    for key, value in pairs:
        if document.setdefault(key, value) != value:
            first, second = (json.dumps(reading)[:150] for reading in (document[key], value))
            raise _WrongError(
                f": {key!r} stands twice, as {first} and as {second}; give a file with one of them"
                + (" (iperf3 before 3.11 writes --bidir so: take a newer one)" if key.startswith("sum") else "")
            )
    return document


def _object(document: object, key: str, where: str) -> Mapping[str, Any]:
    """The object under a key.

    `where` is the document's place in the file, for the message.
    """
    part = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(part, Mapping):
        raise _WrongError(f": {where} has no {key!r}; this is no output of a test that ended")
    return part


def _figure(document: Mapping[str, Any], key: str, where: str) -> float:
    """The number under a key.

    Raises:
        _WrongError: it is missing, negative, or no number that the store takes.
    """
    value = document.get(key)
    try:
        figure = math.nan if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    except OverflowError:
        figure = math.inf
    if not 0 <= figure <= LARGEST:
        raise _WrongError(f": {where}.{key} is {str(value)[:40]!r}, and has to be a number from 0 on")
    return figure


def _instant(seconds: object) -> dt.datetime | None:
    """The instant of a Unix time; None: it is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _metric(name: str, unit: str, better: str, definition: str, resolution: float, source: str) -> Metric:
    return Metric(name, unit, "lower" if better == "lower" else "higher", definition, resolution, source)


FIO: Final = {
    "throughput": _metric(
        "fio.throughput", "MB/s", "higher", "Bytes of a job over its time, as fio reports them.", 1e-3, "fio, bw_bytes"
    ),
    "iops": _metric(
        "fio.iops", "1/s", "higher", "Requests of a job over its time, as fio reports them.", 1e-3, "fio, iops"
    ),
    "latency": _metric(
        "fio.latency",
        "us",
        "lower",
        "Mean time from a request to its completion, as fio reports it.",
        1e-3,
        "fio, lat_ns.mean; fio 2: lat.mean",
    ),
}
_FIO_OPTIONS: Final = ("rw", "bs", "iodepth", "ioengine", "numjobs", "direct")  # that tell jobs of one name apart


def _fio(data: bytes, _declarations: Declarations) -> Iterator[_Reading]:
    """The numbers of fio's JSON, versions 2 and 3.

    The output of `fio --client` is read, too.
    """
    for document in _documents(data):
        key = "client_stats" if "client_stats" in document else "jobs"
        jobs = document.get(key)
        if not isinstance(jobs, list):
            raise _WrongError(": no 'jobs' in it; run fio with --output-format=json")
        hosts = sorted({str(job["hostname"]) for job in jobs if isinstance(job, Mapping) and "hostname" in job})
        if len(hosts) > 1:
            raise _WrongError(f": of `fio --client` with {hosts[0]} and {hosts[1]}; give a file for each host")
        shared = document.get("global options") or {}
        at = _instant(document.get("timestamp"))
        for number, job in enumerate(jobs):
            yield from _fio_job(job, shared if isinstance(shared, Mapping) else {}, f"{key}[{number}]", at)


def _fio_job(job: object, shared: Mapping[str, Any], where: str, at: dt.datetime | None) -> Iterator[_Reading]:
    """The numbers of one job.

    `shared` are the options of all jobs, `where` is its place in the file.
    """
    if not isinstance(job, Mapping) or not isinstance(job.get("jobname"), str):
        raise _WrongError(f": {where} has no jobname")
    if job.get("error"):
        return  # it failed on the way: its rates are of a part
    job_options = job.get("job options")
    options = {**shared, **(job_options if isinstance(job_options, Mapping) else {})}
    params = {"job": str(job["jobname"])} | {name: str(options[name]) for name in _FIO_OPTIONS if name in options}
    if "group_reporting" in options and params.get("numjobs", "1") != "1":  # the sum of its jobs, not one of them
        params["group_reporting"] = "1"
    if "hostname" in job:  # of `fio --client`
        params["host"] = str(job["hostname"])
    flags = frozenset({Flag.SHORTENED} if _was_interrupted(job, options) else ())
    for direction in _fio_directions(job):
        figures = _object(job, direction, where)
        place = f"{where}.{direction}"
        count = "total_ios" if "total_ios" in figures else "io_bytes"  # fio 2.1 counts no I/Os
        if not _figure(figures, count, place):
            continue
        rate = _figure(figures, "bw_bytes", place) if "bw_bytes" in figures else 1024 * _figure(figures, "bw", place)
        values = {"throughput": rate / 1e6, "iops": _figure(figures, "iops", place)}
        for key, per_us in (("lat", 1.0), ("lat_ns", 1e3)):
            if isinstance(latency := figures.get(key), Mapping):
                values["latency"] = _figure(latency, "mean", f"{place}.{key}") / per_us
        for name, value in values.items():
            sample = sample_of(FIO[name], params | {"direction": direction}, value, flags=flags, declared=True)
            yield _Reading(sample, at=at)


def _fio_directions(job: Mapping[str, Any]) -> tuple[str, ...]:
    """The directions that fio reports; `unified_rw_reporting=mixed` has one for all of them."""
    return ("mixed",) if "mixed" in job and "read" not in job else ("read", "write")


_FIO_TIMES: Final = {"": 1e3, "us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6, "d": 8.64e7}  # to ms; fio(1)
_FIO_SIZES: Final = {unit: 1024.0**power for power, unit in enumerate(("", "k", "m", "g", "t"))}
_WHOLE: Final = 0.98  # of what was asked for


def _was_interrupted(job: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """True if a job ended before its time or size.

    Only the numbers show it: fio itself ends with status 0 then.
    """
    directions = [report for name in (*_fio_directions(job), "trim") if isinstance(report := job.get(name), Mapping)]
    asked_ms = _fio_number(options.get("runtime"), _FIO_TIMES)
    took_ms = max(
        _plain_number(report.get("runtime")) for report in (*directions, {"runtime": job.get("job_runtime")})
    )
    if asked_ms and took_ms >= _WHOLE * asked_ms:
        return False
    if "time_based" in options:
        return bool(asked_ms and took_ms)
    asked_bytes = _fio_number(options.get("io_size", options.get("size")), _FIO_SIZES)
    moved_bytes = 0.0
    for report in directions:
        count = _plain_number(report.get("io_bytes"))
        # fio 2 counts KiB: then its rate in KiB/s over its time gives the same number, else 1,024 times less. 32 is the
        # geometric mean of 1 and 1,024.
        kib = _plain_number(report.get("bw")) * _plain_number(report.get("runtime")) / 1e3
        moved_bytes += 1024 * count if count < 32 * kib else count
    return bool(asked_bytes and moved_bytes) and moved_bytes < _WHOLE * asked_bytes


def _plain_number(value: object) -> float:
    """A number from 0 to 1e300; 0: it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if 0 <= value < 10**300 else 0.0


def _fio_number(text: object, units: Mapping[str, float]) -> float:
    """An option's number with its unit; 0: given in another way."""
    match = re.fullmatch(
        r"(\d{1,15}(?:\.\d{1,9})?)([a-z]*)", str(text).strip().lower().removesuffix("ib").removesuffix("b")
    )
    return float(match[1]) * units.get(match[2], 0.0) if match else 0.0


IPERF3: Final = {
    "throughput": _metric(
        "iperf3.throughput",
        "Mbit/s",
        "higher",
        "Payload that the receiver got over the time of the test, as iperf3 reports it.",
        1e-3,
        "iperf3, sum_received",
    ),
    "loss": _metric(
        "iperf3.loss",
        "%",
        "lower",
        "Datagrams that did not arrive, as iperf3 reports them.",
        1e-4,
        "iperf3, lost_packets",
    ),
    "jitter": _metric(
        "iperf3.jitter",
        "ms",
        "lower",
        "Jitter of datagrams (RFC 1889), as iperf3 reports it.",
        1e-3,
        "iperf3, jitter_ms",
    ),
}
_REVERSE: Final = "_bidir_reverse"


def _iperf3(data: bytes, _declarations: Declarations) -> Iterator[_Reading]:
    """The numbers of iperf3's JSON, as -J or --json-stream write it."""
    for document in _join_events(_documents(data)):
        if document.get("error"):
            continue  # the test failed: its rates are of a part
        start, end = _object(document, "start", "it"), _object(document, "end", "it")
        test = _object(start, "test_start", "start")
        stamp = start.get("timestamp")
        at = _instant(stamp.get("timesecs")) if isinstance(stamp, Mapping) else None
        protocol = str(test.get("protocol", "TCP"))
        params = {"protocol": protocol, "streams": str(test.get("num_streams", 1))}
        reverse, datagram = bool(test.get("reverse")), test.get("blksize")
        server = "accepted_connection" in start
        # Up to 3.12 test_start has no `bidir`.
        both = test.get("bidir") or any(key.endswith(_REVERSE) for key in end)
        if server and (reverse or both):
            raise _WrongError(
                ": the server's file of a reverse test does not know what arrived; "
                "give the client's (iperf3 -c HOST -J)"
            )
        if both:  # each direction had to share the link and the processor with the other
            params["bidir"] = "1"
        for suffix in ("", _REVERSE) if both else ("",):
            direction = "ingress" if server or reverse or suffix else "egress"
            for name, value in _iperf3_values(end, suffix, protocol, datagram):
                yield _Reading(sample_of(IPERF3[name], params | {"direction": direction}, value, declared=True), at=at)


def _join_events(documents: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The tests of a file; of `iperf3 --json-stream` the events `start`, `end` and `error` make one.

    Raises:
        _WrongError: a stream has no end.
    """
    test: dict[str, Any] = {}
    for document in documents:
        event = document.get("event")
        if not isinstance(event, str):
            yield document
        elif event in {"start", "end", "error"}:
            if event == "start" and test:
                raise _WrongError(": the stream has a second start before an end; was the first test killed?")
            test[event] = document.get("data")
            if event == "end":
                yield test
                test = {}
    if "error" in test:
        yield test
    elif test:
        raise _WrongError(": the stream has a start and no end; was iperf3 killed?")


def _iperf3_values(
    end: Mapping[str, Any], suffix: str, protocol: str, datagram: object
) -> Iterator[tuple[str, float]]:
    """The numbers of one direction.

    Args:
        end: the test's result.
        suffix: of its keys; empty, or that of the way back of a test in both directions.
        datagram: payload of a datagram in bytes, if the file has it.
    """
    received, sent = (end.get(f"sum_{side}{suffix}") for side in ("received", "sent"))
    sent_bytes = _plain_number(sent.get("bytes")) if isinstance(sent, Mapping) else 0.0
    if sent_bytes and isinstance(received, Mapping) and received.get("bits_per_second") == 0:
        raise _WrongError(
            f": end.sum_received{suffix} is 0 of {sent_bytes:.0f} bytes sent: nothing arrived, or the receiver's "
            "count is missing; measure again"
        )
    if protocol != "UDP":
        received = _object(end, f"sum_received{suffix}", "end")
    if isinstance(received, Mapping) and "bits_per_second" in received:
        yield "throughput", _figure(received, "bits_per_second", f"end.sum_received{suffix}") / 1e6
    if protocol == "UDP":
        place = f"sum{suffix}"
        counted = (
            received if isinstance(received, Mapping) and "lost_packets" in received else _object(end, place, "end")
        )
        packets, lost = _figure(counted, "packets", f"end.{place}"), counted.get("lost_packets")
        if packets and isinstance(lost, int) and lost <= packets:  # fewer than none: some came twice
            # What is lost behind the last datagram that came is not in iperf3's count; the received bytes lack it.
            if isinstance(received, Mapping) and "bytes" in received and isinstance(datagram, int) and datagram > 0:
                lost = max(lost, packets - _figure(received, "bytes", f"end.sum_received{suffix}") / datagram)
            yield "loss", 100 * max(lost, 0) / packets
        yield "jitter", _figure(counted, "jitter_ms", f"end.{place}")


_PARAMS: Final = "params."
_REQUIRED: Final = ("metric", "value", "unit")
_RUN_FIELDS: Final = ("kind", "board", "board_type", "release")
_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "bars"}
_YES_OR_NO: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def _csv(data: bytes, declarations: Declarations) -> Iterator[_Reading]:
    """Lines of `lab results export --csv`, or of a table with some of its columns."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _WrongError(f": not UTF-8 at byte {error.start}") from error
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = [name.strip() for name in rows.fieldnames or ()]
        lacks = [name for name in _REQUIRED if name not in columns]
        if lacks:
            header = text.partition("\n")[0]
            apart = {name: {cell.strip() for cell in header.split(mark)} for mark, name in _SEPARATORS.items()}
            other = next((name for name, cells in apart.items() if cells.issuperset(_REQUIRED)), "")
            raise _WrongError(
                f":1: the columns are separated by {other}: separate them by commas, with a decimal point"
                if other
                else f":1: the header has no {', '.join(lacks)}; `lab results export --csv` shows the columns"
            )
        if twice := next((name for name in columns if name and columns.count(name) > 1), ""):
            cells = [cell for name, cell in zip(columns, next(rows.reader, ()), strict=False) if name == twice]
            raise _WrongError(
                f":1: the column {twice} stands twice, with {' and '.join(cells) or 'nothing'}; leave one out"
            )
        rows.fieldnames = columns
        for row in rows:
            if any(str(cell or "").strip() for cell in row.values()):
                yield _csv_row(row, f":{rows.line_num}", declarations)
    except csv.Error as error:
        raise _WrongError(f":{rows.line_num}: {error}") from error


def _csv_row(row: Mapping[str | None, Any], where: str, declarations: Declarations) -> _Reading:
    """The number of a line; `where`: the line's place, for messages."""
    if None in row or None in row.values():
        raise _WrongError(f"{where}: the line has not as many fields as the header")
    cells: dict[str, str] = {str(key): str(value).strip() for key, value in row.items()}
    try:
        metric = _csv_metric(cells, declarations)
    except BoardlabError as error:
        raise _WrongError(f"{where}: {error}") from error
    version = _number(cells, "definition_version", where, metric.version)
    if cells["unit"] != metric.unit or version != metric.version:
        raise _WrongError(
            f"{where}: {metric.name} is in {cells['unit'] or 'no unit'}, version {version:g}, and is declared in "
            f"{metric.unit}, version {metric.version}; numbers of two definitions are never compared"
        )
    flags = frozenset(cells.get("flags", "").split())
    if unknown := sorted(flags - set(Flag)):
        raise _WrongError(f"{where}: unknown flags {', '.join(unknown)}")
    params = {key.removeprefix(_PARAMS): value for key, value in cells.items() if key.startswith(_PARAMS) and value}
    uncertainty = _number(cells, "uncertainty", where) if cells.get("uncertainty") else None
    if uncertainty is not None and uncertainty < 0:
        raise _WrongError(f"{where}: uncertainty {uncertainty:g} is negative")
    cycle = _number(cells, "cycle", where, 1)
    if not (cycle.is_integer() and 1 <= cycle <= min(_MOST_CYCLES, LAST_ID)):
        raise _WrongError(f"{where}: cycle {cells['cycle']!r} is no whole number from 1 to {_MOST_CYCLES}")
    virtual = _YES_OR_NO.get(cells.get("virtual", "").lower())
    if virtual is None or (cells.get("virtual") and not virtual and Flag.SIMULATED in flags):
        raise _WrongError(
            f"{where}: virtual {cells['virtual'][:40]!r} with the flags {' '.join(sorted(flags)) or 'none'}: expected "
            "true for a virtual board's number, false for a real one's"
        )
    own = catalogue.find(metric.name) is None
    return _Reading(
        sample_of(metric, params, _number(cells, "value", where), uncertainty, flags, declared=own),
        int(cycle),
        cells.get("run", ""),
        {key: cells[key] for key in _RUN_FIELDS if cells.get(key)},
        _csv_instant(cells.get("run_started_at", ""), where),
        virtual or Flag.SIMULATED in flags,
    )


def _boardlab(data: bytes, declarations: Declarations) -> Iterator[_Reading]:
    """Numbers of `lab results export --json`, as lines of its CSV."""
    for document in _documents(data):
        if document.get("format") != EXPORT:
            raise _WrongError(f": its format is {document.get('format')!r}, and no {EXPORT!r}")
        try:
            rows = [
                {
                    **{key: str(run[key]) for key in (*_RUN_FIELDS, "virtual")},
                    "run": str(run["id"]),
                    "run_started_at": run["started_at"],
                    "metric": measured["metric"]["name"],
                    "definition_version": str(measured["metric"]["version"]),
                    **{key: str(measured["metric"][key]) for key in ("unit", "better", "resolution", "definition")},
                    **{_PARAMS + name: text for name, text in measured["params"].items()},
                    **{key: str(sample[key]) for key in ("cycle", "value", "uncertainty")},
                    "flags": " ".join(sample["flags"]),
                }
                for run in document["runs"]
                for measured in run["measurements"]
                for sample in measured["samples"]
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise _WrongError(f": a damaged export, at {error}; export the runs again") from error
        for number, row in enumerate(rows, 1):
            yield _csv_row(row, f": number {number}", declarations)


def _csv_metric(cells: Mapping[str, str], declarations: Declarations) -> Metric:
    """The metric of a line.

    It is boardlab's, the lab's, or one that the line itself declares.

    Raises:
        ConfigurationError: the line contradicts the lab's metrics, or says too little of a new one.
    """
    metric = catalogue.find(cells["metric"])
    if metric is not None:
        return metric
    is_declared = cells["metric"] in declarations.metrics
    fields: dict[str, Any] = {"unit": cells["unit"]} if not is_declared else {}
    for key, read in (("better", str), ("resolution", _exact), ("definition", str)):
        if cells.get(key):
            fields[key] = read(cells[key])
    if not is_declared and cells.get("definition_version", "").isdecimal():
        fields["version"] = int(cells["definition_version"])
    return declarations.metric(cells["metric"], **fields)


def _exact(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigurationError(f"resolution {text[:40]!r} is no number") from error


def _number(cells: Mapping[str, str], key: str, where: str, default: float | None = None) -> float:
    """A cell's number; an empty cell has the default."""
    text = cells.get(key, "")
    if not text and default is not None:
        return float(default)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise _WrongError(f"{where}: {key} {text[:40]!r} is no finite number, at most {LARGEST:g}")
    return value


def _csv_instant(text: str, where: str) -> dt.datetime | None:
    """An instant in the form of ISO 8601; None: no text.

    Without a zone it is UTC.
    """
    if not text:
        return None
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise _WrongError(
            f"{where}: run_started_at {text[:40]!r} is no instant; give e.g. 2026-11-20T14:00:00+00:00"
        ) from error
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=dt.UTC)


FORMATS: Final[Mapping[str, Callable[[bytes, Declarations], Iterator[_Reading]]]] = {
    "fio": _fio,
    "iperf3": _iperf3,
    "csv": _csv,
    "boardlab": _boardlab,
}
