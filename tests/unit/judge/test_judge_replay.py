"""`lab judge replay`: JSON lines in, verdict lines out; a bad line is named."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from support.judge_histories import history

from lab.cli.main import main
from lab.errors import ConfigurationError
from lab.judge import replay as module
from lab.judge.history import Series
from lab.judge.replay import replay


def line(series: Series) -> str:
    runs = [
        {"samples": run.samples.tolist(), "reruns": [each.tolist() for each in run.reruns or ()], **run.provenance}
        for run in series.runs
    ]
    return json.dumps({"series": series.name, "runs": runs}) + "\n"


def parsed(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(each) for each in lines]


def test_a_verdict_line_says_what_moved_since_when_and_what_differs() -> None:
    found = parsed(list(replay([line(history(step=0.02, at=84))], "here")))
    (call,) = [each for each in found if each["verdict"] != "none"]
    assert call["verdict"] == call["outcome"] == "regression"
    assert (call["series"], call["run"], call["since"], call["reruns"]) == ("series 1", 84, 84, 3)
    assert call["low"] < call["effect"] < call["high"]
    assert call["differs"] == {"image": ["image 11", "image 12"]}
    assert found[0] == {"series": "series 1", "run": 0, "verdict": "none", "reruns": 0, "outcome": "no history"}


def test_every_run_has_a_line_where_all_are_asked_for() -> None:
    found = parsed(list(replay([line(history(nights=20))], "here", everything=True)))
    assert [each["run"] for each in found] == list(range(20))
    assert found[-1] == {"series": "series 1", "run": 19, "verdict": "none", "reruns": 0}


def test_processes_change_neither_verdicts_nor_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    lines = [line(history(seed, nights=30)) for seed in range(7)]
    assert list(replay(lines, "here", jobs=2)) == list(replay(lines, "here", jobs=1))


def test_the_command_reads_a_file_a_packed_file_and_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = line(history(step=0.05, at=84))
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    said = []
    for file in (tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz", "-"):
        assert main(["judge", "replay", str(file)]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]
    assert '"verdict": "regression"' in said[0]


RUNS = '"runs": [{"samples": [1, 2]}, '


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "no JSON"),
        ("[1]", 'expected {"series": ID, "runs": [...]}'),
        ('{"series": "a"}', 'expected {"series": ID, "runs": [...]}'),
        ('{"runs": []}', 'add "series"'),
        ('{"series": "a", "better": "more", "runs": []}', 'write "lower" or "higher"'),
        ('{"series": "a", ' + RUNS + "3]}", 'run 1 has no "samples"'),
        ('{"series": "a", ' + RUNS + '{"samples": 3}]}', "samples, entry 1: expected a list of numbers, got 3"),
        ('{"series": "a", ' + RUNS + '{"samples": ["fast"]}]}', 'entry 1: expected a list of numbers, got ["fast"]'),
        ('{"series": "a", ' + RUNS + '{"samples": [true]}]}', "a failed cycle is null"),
        ('{"series": "a", ' + RUNS + '{"samples": [[1]]}]}', "expected a list of numbers"),
        ('{"series": "a", ' + RUNS + '{"samples": [1' + "0" * 400 + "]}]}", "too large"),
        ('{"series": "a", ' + RUNS + '{"samples": [1], "reruns": 2}]}', '"reruns" of run 1 is no list'),
        ('{"series": "a", ' + RUNS + '{"samples": [1], "reruns": [2]}]}', "reruns of run 1, entry 0"),
    ],
)
def test_a_bad_line_is_named_with_what_to_mend(bad: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        list(replay([line(history(nights=3)), "\n", bad], "here"))
    assert str(error.value).startswith("here, line 3: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_failed_cycle_is_null_and_a_failed_run_is_empty() -> None:
    text = '{"series": "a", "runs": [{"samples": [1.5, null]}, {"samples": []}, {"samples": [NaN]}]}'
    assert [each["outcome"] for each in parsed(list(replay([text], "here")))] == [
        "no history",
        "no samples",
        "no samples",
    ]


def test_a_bad_file_is_one_error_and_a_usage_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    (tmp_path / "bad.jsonl.gz").write_text("no gzip")
    (tmp_path / "latin").write_bytes(b"\xff\n")
    for name in ("bad.jsonl", "bad.jsonl.gz", "latin", "none"):
        assert main(["judge", "replay", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert name in error
        assert len(error.splitlines()) == 1
