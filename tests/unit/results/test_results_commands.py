"""`lab results`, run as a person runs it, on a recorded run of 3 media × 20 cycles."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from pathlib import Path
from statistics import fmean

import pytest
from attrs import frozen
from support.facts import missing_facts
from support.recorded_run import record

from lab.cli import main
from lab.errors import ConfigurationError
from lab.results import Run, listing, open_store


@frozen
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@frozen
class Recorded:
    """A database with one run, and a way to ask `lab results` about it."""

    database: Path
    run: Run
    capture: pytest.CaptureFixture[str]

    def ask(self, *words: str) -> Answer:
        """Run `lab results`."""
        code = main(["results", *words, "--db", str(self.database)])
        said = self.capture.readouterr()
        return Answer(code, said.out, said.err)

    def error(self, *words: str) -> str:
        """The one line of an error for which a person's words are to blame."""
        answer = self.ask(*words)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1
        return answer.err


@pytest.fixture(scope="module")
def recorded_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "results.db"
    with open_store(str(path)) as store:
        record(store)
    return path


@pytest.fixture
def recorded(recorded_database: Path, capsys: pytest.CaptureFixture[str]) -> Recorded:
    with open_store(str(recorded_database)) as store:
        return Recorded(recorded_database, store.runs()[0], capsys)


def boot_times(database: Path, medium: str) -> list[float]:
    with open_store(str(database)) as store:
        return [s.value for s in store.samples(1, "boot.time") if s.params == {"medium": medium}]


def test_list_shows_each_run_with_its_averages(recorded: Recorded) -> None:
    header, line = recorded.ask("list").out.splitlines()
    assert " ".join(header.split()) == "run begun (UTC) board type board release kind status good averages"
    assert re.search(r"^ +1  \d{4}-\d\d-\d\d \d\d:\d\d  qemu-virt +qemu-1 +11\.01 +boot +completed  60/64", line)
    sd = fmean(boot_times(recorded.database, "sd"))
    shown = re.search(r"boot\.time \[s\] sd (\d\.\d+), emmc \d", line)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(sd, abs=0.001)


def test_a_list_in_80_columns_has_the_averages_below_each_run(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    header, below, run, averages = recorded.ask("list").out.splitlines()
    assert header.split()[-1] == "good"
    assert below == "     averages"
    assert run.endswith("60/64")
    assert averages.startswith("     boot.time [s] sd ")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs of five boards."""
    path = tmp_path_factory.mktemp("several") / "results.db"
    with open_store(str(path)) as store:
        for board_type, board, release, status in (
            ("am62xx_sk", "am62x-1", "11.00", "completed"),
            ("am62xx_sk", "am62x-1", "11.01", "failed"),
            ("am62xx_sk", "am62x_2", "11.01", "completed"),
            ("am62xx_sk", "am62x-2", "11.01", "interrupted"),
            ("am654x-evm", "am65x-1", "11.01", "completed"),
            ("am654x-evm", "AM65%", "11.01", "running"),
        ):
            run = store.begin_run("boot", board_type, board, release, plan={}, provenance={})
            store.finish_run(run.id, status)
    return path


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], [6, 5, 4, 3, 2, 1]),
        (["--board", "am62x-1"], [2, 1]),
        (["--board", "am62x-1", "--board", "am65x-1"], [5, 2, 1]),
        (["--board", "am62x_2"], [3]),
        (["--board", "am62x_*"], [3]),
        (["--board", "am62x*"], [4, 3, 2, 1]),
        (["--board", "*%"], [6]),
        (["--type", "am654x-evm"], [6, 5]),
        (["--release", "11.00"], [1]),
        (["--release", "11.*", "--status", "completed"], [5, 3, 1]),
        (["--status", "failed", "--status", "interrupted"], [4, 2]),
        (["--status", "failed", "--board", "am65x-1"], []),
        (["--limit", "2", "--type", "am62xx_sk"], [4, 3]),
        (["--since", "1h"], [6, 5, 4, 3, 2, 1]),
        (["--since", "2999-01-01"], []),
    ],
)
def test_a_list_has_the_runs_that_are_asked_for(
    several: Path, capsys: pytest.CaptureFixture[str], words: list[str], ids: list[int]
) -> None:
    assert main(["results", "list", "--json", "--db", str(several), *words]) == 0
    assert [run["id"] for run in json.loads(capsys.readouterr().out)] == ids


def test_a_list_without_such_runs_says_what_there_is(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "list", "--board", "am64x", "--release", "9", "--db", str(several)]) == 0
    assert not missing_facts(
        capsys.readouterr().out,
        "no such runs",
        f"{several}",
        "AM65%",
        "am62x-1, am62x-2",
        "am62x_2, am65x-1",
        "11.00, 11.01",
    )


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-20", "2026-11-20T00:00:00+00:00"),
        ("2026-11-20T14:00", "2026-11-20T14:00:00+00:00"),
        ("2026-11-20T14:00+02:00", "2026-11-20T14:00:00+02:00"),
        ("90m", "2026-11-22T10:30:00+00:00"),
        ("12h", "2026-11-22T00:00:00+00:00"),
        ("7d", "2026-11-15T12:00:00+00:00"),
        ("2w", "2026-11-08T12:00:00+00:00"),
    ],
)
def test_a_past_instant_is_a_day_a_time_or_how_long_ago(text: str, instant: str) -> None:
    assert listing.instant(text, dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)).isoformat() == instant


@pytest.mark.parametrize("text", ["yesterday", "7", "7y", "999999w", "2026-13-01", ""])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="how long ago"):
        listing.instant(text, dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC))


def test_list_of_an_empty_database_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.db"
    open_store(str(path)).close()
    assert main(["results", "list", "--db", str(path)]) == 0
    assert capsys.readouterr().out == f"no runs yet in {path}\n"


def test_list_as_json_has_the_runs_with_plan_and_provenance(recorded: Recorded) -> None:
    (run,) = json.loads(recorded.ask("list", "--json").out)
    assert (run["id"], run["status"], run["plan"]["cycles"]) == (1, "completed", 20)
    assert run["provenance"]["clock"] == "CLOCK_MONOTONIC_RAW"
    assert run["started_at"] == recorded.run.started_at.isoformat()


def test_list_as_json_has_what_the_table_has(recorded: Recorded) -> None:
    (run,) = json.loads(recorded.ask("list", "--json").out)
    line = recorded.ask("list").out.splitlines()[1]
    assert f" {run['good']}/{run['tried']} " in line
    assert (run["averages"]["metric"], run["averages"]["unit"]) == ("boot.time", "s")
    means = {value["params"]["medium"]: value["mean"] for value in run["averages"]["values"]}
    assert means == {medium: pytest.approx(fmean(boot_times(recorded.database, medium))) for medium in means}
    shown = {medium: float(mean) for medium, mean in re.findall(r"(sd|emmc|ospi) (\d\.\d+)", line)}
    assert shown == {medium: pytest.approx(mean, abs=0.001) for medium, mean in means.items()}


def test_show_has_the_guides_cell_and_what_stands_beside_it(recorded: Recorded) -> None:
    out = recorded.ask("show", "1").out
    values = boot_times(recorded.database, "sd")
    line = next(line for line in out.splitlines() if line.startswith("  sd ") and "(min" in line)
    places = len(line.split()[7].partition(".")[2])  # the digits of the ± beside it
    average, least, most = (f"{value:.{places}f}" for value in (fmean(values), min(values), max(values)))
    assert f"{average} (min {least}, max {most})" in line
    assert line.split()[0] == "sd"
    assert "20/20" in line
    assert "medium_unverified, simulated" in line
    assert re.search(r"^boot\.time$", out, re.MULTILINE)
    assert not missing_facts(out, "virtual board", "never")


def test_show_has_each_metric_once_with_all_its_media(recorded: Recorded) -> None:
    out = recorded.ask("show", "1").out
    for metric in ("boot.time", "boot.power_on_to_prompt"):
        after = out.partition(f"\n{metric}\n")[2].splitlines()
        assert [line.split()[0] for line in after[1:4]] == ["sd", "emmc", "ospi"]
    assert out.count("\nboot.") == 3
    assert "\nboot.failure_rate\n  sd 2 of" in out


def test_show_has_the_stages_in_the_order_of_the_boot(recorded: Recorded) -> None:
    stages = recorded.ask("show", "1").out.partition("stages, mean [s]\n")[2].splitlines()
    names = [re.split(r"\s{2,}", line.strip())[0] for line in stages[1:8]]
    assert names[0] == "Power on to U-Boot"
    assert names[3:] == ["Kernel load", "Kernel entry", "Kernel", "User space"]
    with open_store(str(recorded.database)) as store:
        kernel = fmean(s.value for s in store.samples(1) if s.params == {"medium": "emmc", "stage": "Kernel"})
    assert stages[6].split()[2] == f"{kernel:.3f}"


def test_show_says_what_failed_how_often_where_and_whose_fault_it_was(recorded: Recorded) -> None:
    failures = recorded.ask("show", "1").out.partition("failed attempts: 4 of 64\n")[2].splitlines()
    assert [" ".join(line.split()) for line in failures[1:]] == [
        "hang_kernel the board transient 2 sd cycle 7, 15",
        "silent the board transient 1 emmc cycle 3",
        "wrong_medium the lab transient 1 emmc cycle 3",
    ]


def test_show_as_json_has_every_attempt_and_sample(recorded: Recorded) -> None:
    run = json.loads(recorded.ask("show", "1", "--json").out)
    assert len(run["attempts"]) == 64
    assert run["virtual"] is True
    numbers = {(m["metric"]["name"], m["params"]["medium"]): m for m in run["measurements"] if len(m["params"]) == 1}
    sd = numbers["boot.time", "sd"]
    values = boot_times(recorded.database, "sd")
    assert [s["value"] for s in sd["samples"]] == values
    assert sd["summary"]["mean"] == pytest.approx(fmean(values))
    assert sd["metric"]["version"] == 1
    hung = next(a for a in run["attempts"] if a["outcome"] == "hang_kernel")
    assert (hung["fault"], hung["cycle"], hung["samples"]) == ("board", 7, [])


def test_log_prints_the_window_behind_each_number_with_its_moments(recorded: Recorded) -> None:
    out = recorded.ask("show", "1", "--log", "--cycle", "2", "--medium", "emmc", "--metric", "boot.time").out
    with open_store(str(recorded.database)) as store:
        attempt = next(a for a in store.attempts(1) if a.cycle == 2 and a.params["medium"] == "emmc")
        log = store.artifacts.read(attempt.artifacts[0].sha256)
    sample = next(s for s in attempt.samples if s.metric == "boot.time")
    assert f"bytes {sample.log_start}..{sample.log_end}" in out
    assert sample.log_start is not None
    printed = [line.partition(" | ") for line in out.splitlines() if " | " in line]
    assert int(printed[0][0]) == sample.log_start
    assert printed[0][2].startswith("Starting kernel ...  <- starting_kernel at ")
    assert re.match(r"qemu-virt login:   <- login at \d\.\d{4} s ± 0\.09 ms", printed[-1][2])
    assert len(printed) == log[sample.log_start : sample.log_end].count(b"\n") + 1


def test_log_without_a_cycle_prints_the_first_one_of_every_medium(recorded: Recorded) -> None:
    out = recorded.ask("show", "1", "--log").out
    assert re.findall(r"^(\w+) cycle (\d+), attempt 1: ok", out, re.MULTILINE) == [
        ("sd", "1"),
        ("emmc", "1"),
        ("ospi", "1"),
    ]


def test_log_of_a_failed_attempt_is_harmless_to_the_terminal(recorded: Recorded) -> None:
    out = recorded.ask("show", "1", "--log", "--cycle", "7", "--medium", "sd").out
    assert not missing_facts(out, "sd cycle 7", "attempt 1", "hang_kernel")
    assert not missing_facts(out, "board's fault", "hung in kernel")
    assert "^[[2J^[]0;owned^G" in out
    assert "\x1b" not in out
    assert not missing_facts(out, "sd cycle 7", "attempt 2", "ok")


def test_log_says_where_none_was_kept(recorded: Recorded) -> None:
    out = recorded.ask("show", "1", "--log", "--cycle", "3", "--medium", "emmc").out
    assert not missing_facts(out, "emmc cycle 3", "attempt 1", "silent")
    assert "no console log was kept" in out


def test_a_damaged_log_is_the_labs_fault(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.db"
    with open_store(str(path)) as store:
        run = record(store, cycles=1)
        log = store.artifacts.path(store.attempts(run.id)[0].artifacts[0].sha256)
    log.chmod(0o644)
    log.write_bytes(b"?")
    assert main(["results", "show", "1", "--log", "--db", str(path)]) == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "7"], "no run 7; the latest are: 1 (boot, qemu-virt, "),
        (["show", "1", "--log", "--cycle", "21"], "run 1 has no cycle 21; it has cycles 1 to 20"),
        (["show", "1", "--log", "--medium", "nand"], "run 1 has no medium 'nand'; it has: emmc, ospi, sd"),
        (
            ["show", "1", "--log", "--metric", "boot"],
            "run 1 has no 'boot'; it has: boot.time, boot.power_on_to_prompt,",
        ),
        (["show", "1", "--cycle", "2"], "add --log"),
        (["show", "1", "--log", "--json"], "leave out --log"),
        (["export", "9"], "no run 9"),
        (["list", "--status", "done"], "--status done: there are: running, completed, interrupted, failed"),
        (["export", "--csv", "--json"], "--kcidb: one of them"),
    ],
)
def test_a_wrong_word_is_answered_by_one_line(recorded: Recorded, words: list[str], says: str) -> None:
    assert says in recorded.error(*words)


@pytest.mark.parametrize("command", ["show", "export"])
def test_latest_is_the_newest_run(recorded: Recorded, command: str) -> None:
    answer = recorded.ask(command, "latest")
    assert answer.code == 0
    assert answer.out == recorded.ask(command, "1").out


@pytest.mark.parametrize(
    "words", [["show"], ["show", "x"], ["show", "0"], ["show", str(2**40)], ["list", "--limit", "0"]]
)
def test_what_is_no_run_number_is_a_usage_error(recorded: Recorded, words: list[str]) -> None:
    answer = recorded.ask(*words)
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(r"error: .*\n", answer.err)


def test_export_writes_a_csv_line_for_each_sample(recorded: Recorded) -> None:
    rows = list(csv.DictReader(io.StringIO(recorded.ask("export", "--csv").out)))
    assert len(rows) == 60 * 9
    sd = [row for row in rows if row["metric"] == "boot.time" and row["params.medium"] == "sd"]
    assert [float(row["value"]) for row in sd] == boot_times(recorded.database, "sd")
    assert {row["virtual"] for row in rows} == {"True"}
    assert {row["params.stage"] for row in rows if row["metric"] == "boot.time"} == {""}
    assert sd[3]["flags"] == "medium_unverified simulated"
    with open_store(str(recorded.database)) as store:
        assert store.artifacts.read(sd[0]["log_sha256"])[int(sd[0]["log_start"]) :].startswith(b"Starting kernel")


def test_export_writes_everything_as_json_to_a_file(recorded: Recorded, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    assert recorded.ask("export", "1", "-o", str(file)) == Answer(0, "", "")
    document = json.loads(file.read_text())
    assert (document["format"], document["version"]) == ("boardlab-results", 1)
    assert document["runs"] == [json.loads(recorded.ask("show", "1", "--json").out)]


def test_export_into_a_missing_directory_is_explained(recorded: Recorded, tmp_path: Path) -> None:
    answer = recorded.ask("export", "-o", str(tmp_path / "missing" / "all.json"))
    assert (answer.code, answer.out) == (2, "")
    assert not missing_facts(answer.err, "missing/all.json", "No such file", "-o")


def test_a_run_without_any_attempt_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.db"
    with open_store(str(path)) as store:
        store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={})
    assert main(["results", "show", "1", "--db", str(path)]) == 0
    assert not missing_facts(capsys.readouterr().out, "failed", "none of 0")
    assert main(["results", "show", "1", "--log", "--db", str(path)]) == 2
    assert "has no attempts yet" in capsys.readouterr().err


def test_recordings_of_a_run_without_any_are_refused(recorded: Recorded, tmp_path: Path) -> None:
    assert not missing_facts(
        recorded.error("recordings", "1", "--cycle", "99", "-o", str(tmp_path)), "attempt", "recording"
    )
