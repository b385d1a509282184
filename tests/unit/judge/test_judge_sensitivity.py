"""Sensitivity of the judge on a board, by the board's own runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.facts import missing_facts
from support.judged_store import Nights

from lab.cli import main
from lab.judge import sensitivity
from lab.judge.history import HistoryRun
from lab.results import open_store
from lab.results.history import MeasuredNumber

NUMBER = MeasuredNumber("boot.time", 1, (("medium", "sd"),))


def history(night: float, step: float = 0.0, runs: int = 100) -> list[HistoryRun]:
    rng = np.random.default_rng(4)
    levels = rng.normal(0, night, runs) + step * (np.arange(runs) >= 50)
    return [HistoryRun(16 * np.exp(level + rng.normal(0, 0.005, 5)), {"board": "A"}) for level in levels]


@pytest.fixture(autouse=True)
def few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "_COPIES", 10)
    monkeypatch.setattr(sensitivity, "BOOTS", (5, 20))


def test_a_quiet_board_finds_smaller_steps_than_a_noisy_one_and_more_boots_find_more() -> None:
    quiet, noisy = (sensitivity._sensitivity(NUMBER, history(night)) for night in (0.001, 0.01))
    shares = {row.boots: [step.share for step in row.steps] for row in quiet.boots}
    assert shares[20][1] >= shares[5][1]
    assert shares[20][2:] == [1.0, 1.0]
    assert shares[20][0] <= 0.5, "smaller than the least effect that the judge calls"
    assert sum(step.share for step in noisy.boots[1].steps) < sum(shares[20])
    for row in (*quiet.boots, *noisy.boots):
        assert all(step.low <= step.share <= step.high or step.low > 0.5 for step in row.steps)
        assert row.low <= row.false_alarms <= row.high
        assert row.high > 3, "a hundred runs cannot show fewer"
    text = sensitivity.sentence(quiet)
    assert not missing_facts(text, "boot.time sd", "+0.5 %")
    assert "+2 % in 100 % (" in text
    assert "by 20 boots, with " in text
    assert not missing_facts(text, "false alarms", "100 runs")


def test_a_change_in_the_history_is_taken_out() -> None:
    changed = sensitivity._sensitivity(NUMBER, history(0.001, step=0.04))
    assert changed.removed == 1
    assert changed.boots[1].false_alarms < 1


def test_a_short_history_is_one_clear_error_and_a_long_one_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "results.db")
    with open_store(db) as store:
        nights = Nights(store)
        nights.quiet(60)
        Nights(store, board="0043").run()
    assert main(["judge", "sensitivity", "0043", "--db", db]) == 2
    assert not missing_facts(capsys.readouterr().err, "boot.time", "0043", "1 boot runs", "need 60")
    assert main(["judge", "sensitivity", "0044", "--db", db]) == 2
    assert main(["judge", "sensitivity", "0042", "--db", db]) == 0
    text = capsys.readouterr().out
    assert not missing_facts(text, "boot.time sd", "0042", "latest 60 runs")
    assert text.splitlines()[1].split() == [
        "boots",
        "false",
        "alarms",
        "a",
        "year",
        "+0.5",
        "%",
        "+1",
        "%",
        "+2",
        "%",
        "+5",
        "%",
    ]
    assert main(["judge", "sensitivity", "0042", "--json", "--db", db]) == 0
    (number,) = json.loads(capsys.readouterr().out)
    assert [row["boots"] for row in number["boots"]] == [5, 20]
    assert [step["effect"] for step in number["boots"][0]["steps"]] == [0.005, 0.01, 0.02, 0.05]
