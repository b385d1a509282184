"""Numbers of other programs: fio, iperf3, CSV."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import recorded_run
from support.facts import missing_facts

from lab.benchmarks import ltpddt
from lab.cli import main
from lab.errors import ConfigurationError
from lab.judge.run_judge import judge_run
from lab.metrics import Flag
from lab.results import Store, open_store
from lab.results.formatting import export_csv
from lab.results.imports import FORMATS, ImportForm, ImportTarget, read_runs
from lab.results.listing import overview
from lab.results.store import WholeRun, record_runs

FILES = Path(__file__).parents[2] / "fixtures" / "imports"
METRIC = "camera.first_frame"
TARGET = ImportTarget("b1", "am62xx_sk", "11.01")
MORE = {ltpddt.FORM: ImportForm(ltpddt.MARK, ltpddt.samples)}


def numbers(runs: list[WholeRun]) -> dict[tuple[str, ...], float]:
    """Metric and parameters -> value, of a run."""
    (run,) = runs
    (attempt,) = run.attempts
    return {(s.metric, *(text for _, text in sorted(s.params.items()))): s.value for s in attempt.samples}


def test_fios_jobs_are_numbers_and_a_failed_job_is_none() -> None:
    runs = read_runs([FILES / "fio.json"], TARGET)
    found = numbers(runs)
    # bs, direct, direction, ioengine, iodepth, job, rw
    assert found["fio.throughput", "1m", "1", "read", "4", "libaio", "seqread", "read"] == 89.40032
    assert found["fio.latency", "1m", "1", "read", "4", "libaio", "seqread", "read"] == pytest.approx(46912.3455)
    assert found["fio.iops", "4k", "1", "write", "libaio", "mixed", "randrw"] == 500.0
    assert len(found) == 9
    assert not any("broken" in key for key in found)
    assert runs[0].started_at is not None
    assert runs[0].started_at.isoformat() == "2025-11-24T16:00:00+00:00"


def test_the_sum_of_fios_jobs_is_not_the_number_of_one_of_them(tmp_path: Path) -> None:
    def params(**options: str) -> dict[str, str]:
        document = json.loads((FILES / "fio.json").read_text().partition("\n")[2])
        document["jobs"] = document["jobs"][:1]
        document["jobs"][0]["job options"] |= options
        (file := tmp_path / "fio.json").write_text(json.dumps(document))
        ((attempt,),) = (run.attempts for run in read_runs([file], TARGET))
        return attempt.samples[0].params

    assert params(numjobs="4", group_reporting="") == params(numjobs="4") | {"group_reporting": "1"}
    assert params(numjobs="1", group_reporting="") == params(numjobs="1")


def test_iperf3s_receivers_count() -> None:
    assert numbers(read_runs([FILES / "iperf3_tcp_bidir.json"], TARGET)) == {
        # bidir, direction, protocol, streams
        ("iperf3.throughput", "1", "egress", "TCP", "1"): pytest.approx(938.353882),
        ("iperf3.throughput", "1", "ingress", "TCP", "1"): 748.5,
    }
    # An older one names the sender's rate of UDP alone: that is no throughput.
    assert numbers(read_runs([FILES / "iperf3_udp.json"], TARGET)) == {
        ("iperf3.loss", "ingress", "UDP", "2"): 0.25,
        ("iperf3.jitter", "ingress", "UDP", "2"): 0.021,
    }


def edited(name: str, **end: object) -> str:
    """A fixture of iperf3 with other keys in its `end`."""
    document = json.loads((FILES / name).read_text())
    document["end"] |= end
    return json.dumps(document)


def test_iperf3s_bidir_has_both_directions_though_its_start_names_none() -> None:
    assert numbers(read_runs([FILES / "iperf3_bidir_3.12.json"], TARGET)) == {
        ("iperf3.throughput", "1", "egress", "TCP", "1"): 170.0,
        ("iperf3.throughput", "1", "ingress", "TCP", "1"): 639.0,
    }


def test_iperf3s_server_tells_what_arrived_at_itself_and_nothing_of_a_reverse_test(tmp_path: Path) -> None:
    (file := tmp_path / "server.json").write_text((FILES / "iperf3_server_reverse.json").read_text())
    document = json.loads(file.read_text())
    with pytest.raises(ConfigurationError, match=r"reverse.*client's"):
        read_runs([file], TARGET)
    document["start"]["test_start"]["protocol"] = "UDP"
    document["end"]["sum"] = {"packets": 191, "lost_packets": 0, "jitter_ms": 0, "bits_per_second": 5e7}
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match="give the client's"):
        read_runs([file], TARGET)
    document = json.loads((FILES / "iperf3_server_reverse.json").read_text())
    document["start"]["test_start"]["reverse"] = 0
    document["end"]["sum_sent"], document["end"]["sum_received"] = (
        document["end"][f"sum_{side}"] for side in ("received", "sent")
    )
    file.write_text(json.dumps(document))
    assert numbers(read_runs([file], TARGET)) == {("iperf3.throughput", "ingress", "TCP", "1"): 1186.0}


@pytest.mark.parametrize("suffix", ["", "_bidir_reverse"])
def test_a_receiver_of_iperf3_that_counts_nothing_of_what_was_sent_is_no_number(tmp_path: Path, suffix: str) -> None:
    nothing = {"bytes": 0, "bits_per_second": 0}
    (file := tmp_path / "a.json").write_text(edited("iperf3_bidir_3.12.json", **{f"sum_received{suffix}": nothing}))
    with pytest.raises(ConfigurationError, match=f"sum_received{suffix} is 0 of"):
        read_runs([file], TARGET)


@pytest.mark.parametrize(
    ("name", "was", "twice", "told"),
    [
        (
            "iperf3_bidir_3.12.json",
            "_bidir_reverse",
            "",
            r"'sum_sent' stands twice, as \{.*208000000.0\} and as \{.*648000000.0\}; .*iperf3 before 3.11",
        ),
        ("fio_2.10.json", '"bw": 23831', '"bw": 23831, "bw": 7', "'bw' stands twice, as 23831 and as 7"),
    ],
)
def test_a_key_that_stands_twice_with_two_values_is_refused_with_both(
    tmp_path: Path, name: str, was: str, twice: str, told: str
) -> None:
    text = (FILES / name).read_text()
    (file := tmp_path / name).write_text(text.replace(was, twice))
    with pytest.raises(ConfigurationError, match=told):
        read_runs([file], TARGET)
    file.write_text(text.replace('"error": 0', '"error": 0, "error": 0'))
    assert numbers(read_runs([file], TARGET))


def test_fio_2_counts_kib_and_microseconds() -> None:
    (run,) = read_runs([FILES / "fio_2.10.json"], TARGET)
    assert sorted((s.metric, round(s.value, 2), *s.flags) for s in run.attempts[0].samples) == [
        ("fio.iops", 23.27),
        ("fio.latency", 24.5),
        ("fio.throughput", 24.4),
    ]


def test_a_job_of_fio_2_that_moved_half_of_its_size_is_shortened(tmp_path: Path) -> None:
    document = json.loads((FILES / "fio_2.10.json").read_text())
    document["jobs"][0]["read"] |= {"io_bytes": 131072, "runtime": 5500}
    (file := tmp_path / "half.json").write_text(json.dumps(document))
    (run,) = read_runs([file], TARGET)
    assert {tuple(sample.flags) for sample in run.attempts[0].samples} == {(Flag.SHORTENED,)}


def test_fios_client_names_the_host_of_its_numbers_and_two_hosts_are_no_board(tmp_path: Path) -> None:
    (run,) = read_runs([FILES / "fio_client.json"], TARGET)
    rate = next(sample for sample in run.attempts[0].samples if sample.metric == "fio.throughput")
    assert (rate.value, rate.params["host"]) == (7.45654, "192.0.2.2")
    document = json.loads((FILES / "fio_client.json").read_text())
    document["client_stats"].append(document["client_stats"][0] | {"hostname": "192.0.2.3"})
    (file := tmp_path / "two.json").write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match=r"192.0.2.2 and 192.0.2.3"):
        read_runs([file], TARGET)


@pytest.mark.parametrize(
    ("column", "cell", "virtual"),
    [
        ("virtual", "yes", True),
        ("virtual", "TRUE", True),
        ("virtual", "no", False),
        ("virtual", "", False),
        ("flags", "simulated", True),
    ],
)
def test_a_virtual_boards_csv_is_never_a_real_boards(tmp_path: Path, column: str, cell: str, virtual: bool) -> None:
    (file := tmp_path / "a.csv").write_text(f"{FRAME},{column}\n{METRIC},s,lower,0.1,3,{cell}\n")
    (run,) = read_runs([file], TARGET)
    assert run.provenance["virtual"] is virtual


def test_an_empty_row_of_a_csv_is_left_out(tmp_path: Path) -> None:
    (file := tmp_path / "a.csv").write_text(
        f"metric, unit,better,resolution,value\n{METRIC},s,lower,0.1,3\n,,,,\n , ,,,\n"
    )
    assert numbers(read_runs([file], TARGET)) == {(METRIC,): 3.0}


@pytest.mark.parametrize(
    ("options", "took_ms", "moved", "shortened"),
    [
        ({"runtime": "60", "time_based": "1"}, 60001, 1 << 30, False),
        ({"runtime": "60", "time_based": "1"}, 20001, 1 << 30, True),
        ({"runtime": "1m", "time_based": "1", "size": "4g"}, 20001, 1 << 40, True),
        ({"size": "1g"}, 8000, 1 << 30, False),
        ({"size": "1GiB"}, 8000, 1 << 29, True),
        ({"size": "1g", "runtime": "8s"}, 8000, 1 << 29, False),
        ({"size": "50%"}, 8000, 1 << 29, False),
        ({}, 8000, 1 << 29, False),
    ],
)
def test_a_job_of_fio_that_was_interrupted_is_flagged_though_its_status_is_0(
    tmp_path: Path, options: dict[str, str], took_ms: int, moved: int, shortened: bool
) -> None:
    document = json.loads((FILES / "fio.json").read_text().partition("\n")[2])
    (job, *_) = document["jobs"]
    job["job options"], job["job_runtime"] = options, took_ms
    job["read"] |= {"runtime": took_ms, "io_bytes": moved}
    document["jobs"] = [job]
    (file := tmp_path / "fio.json").write_text(json.dumps(document))
    (run,) = read_runs([file], TARGET)
    assert {Flag.SHORTENED in sample.flags for each in run.attempts for sample in each.samples} == {shortened}


def test_a_log_of_ltp_ddt_has_the_numbers_of_the_tests_that_passed_and_ended() -> None:
    found = numbers(read_runs([FILES / "ltpddt.log"], TARGET, more=MORE))
    assert found == {
        ("lmbench.bw_mem", "rd", "1mb"): 3210.5,
        ("lmbench.lat_ctx", "2", "128k"): 4.12,
        ("ltpddt.throughput", "102400", "write", "filesystem_tests"): 51.83,
        ("ltpddt.cpu_load", "102400", "write", "filesystem_tests"): 5.03,
    }


def test_a_test_of_ltp_ddt_without_its_numbers_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FILES / "ltpddt.log").read_text().replace("2 4.12\n", "")
    (file := tmp_path / "ddt.log").write_text(text)
    words = ("--board", "b1", "--type", "t", "--release", "1", "--db", str(tmp_path / "results.db"))
    assert main(["results", "import", str(file), *words]) != 0
    told = capsys.readouterr().err
    assert not missing_facts(told, f"{file}", "line 16", "lat_ctx")
    assert "Traceback" not in told
    assert main(["results", "import", str(FILES / "ltpddt.log"), *words]) == 0
    assert "4 numbers of b1" in capsys.readouterr().out


@pytest.mark.parametrize(("lost", "came", "percent"), [(0, 1208, 33.26), (0, 1810, 0.0), (181, 1629, 10.0)])
def test_iperf3s_last_datagrams_that_did_not_come_are_lost(
    tmp_path: Path, lost: int, came: int, percent: float
) -> None:
    document = json.loads((FILES / "iperf3_udp.json").read_text())
    document["start"]["test_start"]["blksize"] = 978
    received = {"bytes": 978 * came, "bits_per_second": 9.3e6, "jitter_ms": 0.1, "lost_packets": lost, "packets": 1810}
    document["end"]["sum_received"] = received
    (file := tmp_path / "udp.json").write_text(json.dumps(document))
    found = numbers(read_runs([file], TARGET))
    assert found["iperf3.loss", "ingress", "UDP", "2"] == pytest.approx(percent, abs=0.01)
    assert found["iperf3.throughput", "ingress", "UDP", "2"] == 9.3


def test_files_are_runs_in_the_order_of_their_times_or_the_cycles_of_one(tmp_path: Path) -> None:
    text = (FILES / "fio.json").read_text()
    for number, seconds in enumerate((1764200000, 1764100000, 1764300000)):
        (tmp_path / f"{number}.json").write_text(text.replace("1764000000,", f"{seconds},"))
    files = sorted(tmp_path.glob("*.json"))
    runs = read_runs(files, TARGET)
    assert [list(run.provenance["imported"]["files"]) for run in runs] == [["1.json"], ["0.json"], ["2.json"]]
    (together,) = read_runs(files, ImportTarget("b1", "am62xx_sk", "11.01", one_run=True))
    assert [attempt.cycle for attempt in together.attempts] == [1, 2, 3]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "results.db"))


def test_an_exported_csv_comes_back_as_the_same_numbers(store: Store, tmp_path: Path) -> None:
    run = recorded_run.record(store, virtual=True).id
    file = tmp_path / "history.csv"
    file.write_text(export_csv([overview(store, run)]))
    (again,) = record_runs(store, read_runs([file], ImportTarget()))
    was, now = store.run(run), store.run(again)
    assert (now.kind, now.board, now.board_type, now.release, now.started_at) == (
        *(was.kind, was.board, was.board_type, was.release, was.started_at),
    )
    assert now.provenance["virtual"] is True
    told = [
        {
            (m.metric.name, m.metric.version, tuple(sorted(m.params.items()))): sorted(
                (s.cycle, s.value, s.uncertainty, s.flags) for s in m.samples
            )
            for m in store.measurements(each)
        }
        for each in (run, again)
    ]
    assert told[0] == told[1]
    assert overview(store, again).virtual


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_imported_numbers_are_exported_and_imported_again(form: str, tmp_path: Path) -> None:
    files = [str(FILES / name) for name in ("fio.json", "iperf3_tcp_bidir.json")]
    words = ("--board", "b1", "--type", "am62xx_sk", "--release", "11.01")
    first, second = (str(tmp_path / name / "results.db") for name in ("first", "second"))
    for url in (first, second):
        Path(url).parent.mkdir()
    assert main(["results", "import", *files, *words, "--db", first]) == 0
    assert main(["results", "export", form, "--output", str(tmp_path / "exported"), "--db", first]) == 0
    with open_store(first) as store:
        runs = numbers_of(store)
    assert len(runs) == 2
    for url in (first, second):  # the numbers also fit beside those that they come from
        assert main(["results", "import", str(tmp_path / "exported"), "--db", url]) == 0
        with open_store(url) as store:
            assert numbers_of(store)[-2:] == runs


def numbers_of(store: Store) -> list[tuple[object, ...]]:
    """Each run with its numbers, the first import first."""
    return [
        (
            run.board,
            run.release,
            run.started_at,
            [(m.metric.name, m.params, m.samples) for m in store.measurements(run.id)],
        )
        for run in sorted(store.runs(), key=lambda run: run.id)
    ]


def test_a_damaged_export_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "runs.json").write_text('{"format": "boardlab-results", "runs": [{"id": 1}]}')
    assert main(["results", "import", str(file), "--db", str(tmp_path / "results.db")]) == 2
    assert not missing_facts(capsys.readouterr().err, f"{file}", "'measurements'", "export")


def test_a_table_of_ones_own_is_a_history_that_the_judge_reads_on_the_first_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(7)
    lines = ["run,run_started_at,metric,unit,better,resolution,params.camera,cycle,value"]
    for run in range(12):
        base = 0.41 if run < 9 else 0.62
        lines += [
            f"{run},2026-11-{run + 1:02}T02:00:00,camera.first_frame,s,lower,0.001,left,{cycle},{dice.gauss(base, 0.003):.4f}"
            for cycle in range(1, 11)
        ]
    (tmp_path / "history.csv").write_text("\n".join(lines))
    url = str(tmp_path / "results.db")
    words = ("--board", "b1", "--type", "camera", "--release", "1", "--db", url)
    assert main(["results", "import", str(tmp_path / "history.csv"), *words]) == 0
    assert not missing_facts(
        capsys.readouterr().out, "run 12", "10 numbers", "b1", "release 1", "2026-11-12 02:00 UTC"
    )
    with open_store(url) as store:
        (judged,) = judge_run(store, 11, remember=tmp_path / "judge").judged
        assert (judged.verdict.metric, judged.verdict.direction, judged.verdict.since_run) == (METRIC, 1, 10), judged
        assert judged.verdict.effect == pytest.approx(0.21 / 0.41, abs=0.03)
        assert len(store.runs()) == 12


FRAME = "metric,unit,better,resolution,value"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "metric,value\nboot.time,3\n", r"a.csv:1: the header has no unit"),
        (
            "a.csv",
            "metric,unit,value\nboot.time,ms,3\n",
            r"a.csv:2: boot.time is in ms, version 1, and is declared in s",
        ),
        ("a.csv", "metric,unit,value\nboot.time,s,three\n", r"a.csv:2: value 'three' is no finite number"),
        ("a.csv", "metric,unit,value\nboot.time,s,nan\n", r"a.csv:2: value 'nan' is no finite number"),
        ("a.csv", "metric,unit,value\nboot.time,s,3,4\n", r"a.csv:2: the line has not as many fields"),
        ("a.csv", "metric,unit,value\nboot.time,s\n", r"a.csv:2: the line has not as many fields"),
        ("a.csv", "metric,unit,value\ncamera.frame,s,3\n", r"a.csv:2: .*lacks better, resolution"),
        ("a.csv", f"{FRAME}\ncamera.frame,s,less,0.1,3\n", r"a.csv:2: .*better 'less'"),
        ("a.csv", f"{FRAME},cycle\ncamera.frame,s,lower,0.1,3,0\n", r"a.csv:2: cycle '0' is no whole number"),
        ("a.csv", f"{FRAME},flags\ncamera.frame,s,lower,0.1,3,odd\n", r"a.csv:2: unknown flags odd"),
        ("a.csv", f"{FRAME},uncertainty\ncamera.frame,s,lower,0.1,3,-1\n", r"a.csv:2: uncertainty -1 is negative"),
        ("a.csv", f"{FRAME},run_started_at\ncamera.frame,s,lower,0.1,3,soon\n", r"a.csv:2: run_started_at 'soon'"),
        ("a.csv", f"{FRAME}\n", r"a.csv: csv measured nothing in it"),
        (
            "a.csv",
            f"{FRAME},value\ncamera.frame,s,lower,0.1,3,7\n",
            r"a.csv:1: the column value stands twice, with 3 and 7",
        ),
        ("a.csv", f"{FRAME}, params.a,params.a\n", r"a.csv:1: the column params.a stands twice, with nothing"),
        ("a.csv", f"{FRAME},virtual\ncamera.frame,s,lower,0.1,3,qemu\n", r"a.csv:2: virtual 'qemu'"),
        (
            "a.csv",
            f"{FRAME},virtual,flags\ncamera.frame,s,lower,0.1,3,no,simulated\n",
            r"a.csv:2: virtual 'no' with the flags simulated: expected",
        ),
        (
            "a.csv",
            f"{FRAME},board\ncamera.frame,s,lower,0.1,3,b1\ncamera.frame,s,lower,0.1,3,b2\n",
            r"a.csv: board of one run is 'b1' and 'b2'; a column `run`",
        ),
        ("a.csv", "metric;value;unit\na.b;12,5;s\n", r"a.csv:1: the columns are separated by semicolons"),
        ("a.csv", "metric;value;unit\na.b;12.5;s\n", r"a.csv:1: the columns are separated by semicolons"),
        ("a.csv", "metric\tvalue\tunit\na.b\t12.5\ts\n", r"a.csv:1: the columns are separated by tabs"),
        ("a.json", '{"fio version": "3", "jobs": [', r"a.json:1: broken JSON: .*; was the program killed"),
        ("a.json", '{"fio version": "3"}', r"a.json: no 'jobs' in it"),
        ("a.json", '{"fio version": "3", "jobs": [{"error": 1, "jobname": "x"}]}', r"a.json: fio measured nothing"),
        ("a.json", '{"fio version": "3", "jobs": [{"jobname": "x"}]}', r"a.json: jobs\[0\] has no 'read'"),
        ("a.json", '{"intervals": [], "start": {}, "end": {}}', r"a.json: start has no 'test_start'"),
        ("a.json", '{"intervals": [], "error": "unable to connect"}', r"a.json: iperf3 measured nothing"),
        ("a.log", "boot took 3 s", r"a.log: none of fio, iperf3, csv, boardlab, ltp-ddt by its contents"),
        (
            "a.xml",
            '<testsuites><testcase name="metric"/></testsuites>',
            r"a.xml: none of .*exports --json and --csv have every number",
        ),
    ],
)
def test_a_wrong_file_is_told_with_its_place_and_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    good, url = str(FILES / "fio.json"), str(tmp_path / "results.db")
    words = ["--board", "b1", "--type", "t", "--release", "1", "--db", url]
    with pytest.raises(ConfigurationError, match=told):
        read_runs([tmp_path / name], TARGET, more=MORE)
    assert main(["results", "import", good, str(tmp_path / name), *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not Path(url).exists()


def test_a_file_that_does_not_name_its_board_asks_for_it(tmp_path: Path) -> None:
    for target, option in (
        (ImportTarget(), "--board"),
        (ImportTarget("b1"), "--type"),
        (ImportTarget("b1", "t"), "--release"),
    ):
        with pytest.raises(ConfigurationError, match=f"give {option}$"):
            read_runs([FILES / "fio.json"], target)


KEYS = (
    *("jobs", "read", "write", "total_ios", "bw_bytes", "bw", "iops", "lat_ns", "mean", "jobname", "error"),
    *("start", "end", "test_start", "protocol", "sum", "sum_received", "packets", "lost_packets", "jitter_ms"),
    *("bits_per_second", "timestamp", "timesecs", "bidir", "global options", "job options", "runtime", "job_runtime"),
    *("size", "io_bytes", "time_based", "client_stats", "hostname", "lat", "accepted_connection", "sum_sent", "bytes"),
    *("reverse", "sum_received_bidir_reverse", "sum_sent_bidir_reverse"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    max_leaves=40,
)


EDGES = st.sampled_from(
    [
        b"|TEST START|lat_pipe|\n",
        b"|TEST RESULT|PASS|lat_pipe|\n",
        b"|TEST END|lat_pipe|\n",
        b"|TEST START|bw_mem|\n",
        b"|TEST END|bw_mem|\n",
        b"|TRACE LOG| Operation - rd|\n",
        b"Pipe latency: 5.4 microseconds\n",
        b"1.00 5.0\n",
        b"|PERFDATA|a:b|throughput:",
        b"5MB/S|\n",
        b"\xff\n",
        b"[    1.000000] hello\n",
    ]
)


@pytest.mark.parametrize("form", [*FORMATS, *MORE])
@given(
    data=st.binary(max_size=100)
    | st.lists(EDGES, max_size=12).map(b"".join)
    | JSON.map(lambda document: json.dumps(document).encode())
    | st.text(max_size=80).map(
        lambda text: b"metric,unit,value,cycle,flags,run_started_at\nboot.time,s," + text.encode("utf-8", "replace")
    )
)
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, form: str, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    try:
        runs = read_runs([file], TARGET, form, MORE)
    except ConfigurationError as error:
        assert str(error).startswith(str(file))  # noqa: PT017 - either is good
    else:
        assert all(
            Flag.SIMULATED in s.flags or s.value == s.value for run in runs for a in run.attempts for s in a.samples
        )


def test_fios_unified_directions_are_one_direction(tmp_path: Path) -> None:
    document = json.loads((FILES / "fio.json").read_text().partition("\n")[2])
    job = document["jobs"][0]
    job["mixed"] = job.pop("read")
    del job["write"]
    document["jobs"] = [job]
    (file := tmp_path / "fio.json").write_text(json.dumps(document))
    ((attempt,),) = (run.attempts for run in read_runs([file], TARGET))
    assert {sample.params["direction"] for sample in attempt.samples} == {"mixed"}
    assert attempt.samples[0].value == 89.40032


def test_fio_2_1_counts_no_requests(tmp_path: Path) -> None:
    figures = {"io_bytes": 262144, "bw": 23831, "iops": 23, "runtime": 11000}
    nothing = dict.fromkeys(figures, 0)
    document = {"fio version": "fio-2.1.3", "jobs": [{"jobname": "r", "error": 0, "read": figures, "write": nothing}]}
    (file := tmp_path / "fio.json").write_text(json.dumps(document))
    assert numbers(read_runs([file], TARGET)) == {
        ("fio.throughput", "read", "r"): 24.402944,
        ("fio.iops", "read", "r"): 23.0,
    }


def test_iperf3s_stream_of_events_is_one_test_and_one_without_an_end_is_refused(tmp_path: Path) -> None:
    whole = json.loads((FILES / "iperf3_tcp_bidir.json").read_text())
    events = [{"event": name, "data": whole[name]} for name in ("start", "end")]
    events.insert(1, {"event": "interval", "data": {"sum": {"bits_per_second": 1.0}}})
    lines = [json.dumps(event) + "\n" for event in events]
    (file := tmp_path / "iperf3.json").write_text("".join(lines))
    assert numbers(read_runs([file], TARGET)) == numbers(read_runs([FILES / "iperf3_tcp_bidir.json"], TARGET))
    file.write_text("".join(lines[:2]))
    with pytest.raises(ConfigurationError, match=r"no end.*iperf3 killed"):
        read_runs([file], TARGET)
    file.write_text(lines[0] + '{"event":"error","data":"interrupt"}\n')
    with pytest.raises(ConfigurationError, match=r"iperf3 measured nothing"):
        read_runs([file], TARGET)


def test_a_brace_within_a_csv_is_text(tmp_path: Path) -> None:
    (file := tmp_path / "own.csv").write_text(
        'metric,value,unit,better,resolution,params.pipeline\nmy.rate,12.5,MB/s,higher,0.1,"{a, b}"\n'
    )
    assert numbers(read_runs([file], TARGET)) == {("my.rate", "{a, b}"): 12.5}
