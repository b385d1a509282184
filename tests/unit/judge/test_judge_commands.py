"""`lab judge run|list|show|accept|reject|mute|stats` on a store with a regression in it."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from sqlalchemy.orm import Session
from support.facts import missing_facts
from support.judged_store import BOOTS, DAY, Nights

from lab.cli import main
from lab.results import open_store
from lab.results.models import RunRow

QUIET = 15


@frozen
class Lab:
    """A store with a quiet history, and a slower image's two runs after it."""

    db: str
    capsys: pytest.CaptureFixture[str]
    first: int
    second: int

    def __call__(self, *words: str) -> tuple[int, str]:
        code = main(["judge", *words, "--db", self.db])
        said = self.capsys.readouterr()
        return code, said.out + said.err

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json")[1])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, int]:
    """The database, and the slower image's runs."""
    db = tmp_path_factory.mktemp("measured") / "results.db"
    with open_store(str(db)) as store:
        nights = Nights(store)
        nights.quiet(QUIET)
        return db, nights.run(1.03, image="slow"), nights.run(1.03, image="slow")


@pytest.fixture
def lab(
    measured: tuple[Path, int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Lab:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOGNAME", "ann")
    made, first, second = measured
    db = tmp_path / "results.db"
    db.write_bytes(made.read_bytes())
    return Lab(str(db), capsys, first, second)


def test_a_confirmed_regression_is_status_1_and_says_size_since_and_what_differs(lab: Lab) -> None:
    code, said = lab("run", "latest")
    assert code == 1
    (line,) = [line for line in said.splitlines() if "regression" in line and "boot.time (sd)" in line]
    assert f" {lab.first} " in line
    assert "image: sha256" in line
    assert "+3." in line or "+2." in line
    assert said.endswith("1 numbers: 1 regression\n")


def test_a_run_that_lacks_a_medium_of_its_plan_says_so_first_and_is_status_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "results.db")
    with open_store(db) as store:
        nights = Nights(store)
        nights.quiet(QUIET, media=("sd", "emmc"))
        run = nights.run(media=("sd",))
        with Session(store._engine) as session, session.begin():
            row = session.get_one(RunRow, run)
            row.plan, row.status = {"cycles": BOOTS, "media": ["sd", "emmc"]}, "interrupted"
    code = main(["judge", "run", "latest", "--summary", str(tmp_path / "verdict.txt"), "--db", db])
    printed = capsys.readouterr().out
    assert code == 4
    assert not missing_facts(printed, "not complete", "interrupted", f"{BOOTS} of {2 * BOOTS}", "none of emmc")
    assert not missing_facts(printed, f"in run {QUIET}: boot.time emmc")
    verdict = (tmp_path / "verdict.txt").read_text()
    assert verdict.startswith("Not complete: interrupted")
    assert "Nothing moved" not in verdict


def test_a_known_regression_is_still_worse_and_no_news(lab: Lab, tmp_path: Path) -> None:
    assert lab("run", str(lab.second))[0] == 1
    with open_store(lab.db) as store:
        third = Nights(store, seed=2, now=store.run(lab.second).started_at + DAY).run(1.03, image="slow")
    code, said = lab("run", str(third), "--summary", str(tmp_path / "verdict.txt"))
    assert code == 0, "a change has one verdict"
    assert f"still worse since run {lab.first}: boot.time sd +" in said
    assert (tmp_path / "verdict.txt").read_text().startswith(f"Still worse since run {lab.first}: boot.time sd +")
    assert "not confirmed" not in said


def test_a_change_has_one_answer_whatever_run_is_named(lab: Lab, tmp_path: Path) -> None:
    assert lab("run", str(lab.second))[0] == 1, "it decides"
    with open_store(lab.db) as store:
        nights = Nights(store, seed=2, now=store.run(lab.second).started_at + DAY)
        third, fourth = nights.run(1.03, image="slow"), nights.run(1.03, image="slow")
    answers = {}
    for run in (fourth, third, lab.second, lab.first):
        code, said = lab("run", str(run), "--summary", str(tmp_path / "verdict.txt"))
        (verdict,) = lab.json("run", str(run))
        headline = (tmp_path / "verdict.txt").read_text().partition(" (run")[0]
        answers[run] = (code, re.sub(r"\+\d\.\d %.*", "", headline))
        assert (verdict["outcome"], verdict["since_run"], verdict["run"]) == ("regression", lab.first, lab.second)
        assert f"since run {lab.first}: boot.time sd +" in said or "regression" in said
    still = f"Still worse since run {lab.first}: boot.time sd "
    began = "Regression: 1 number"
    assert answers == {fourth: (0, still), third: (0, still), lab.second: (1, began), lab.first: (1, began)}
    assert [each["run"] for each in lab.json("list")] == [lab.second], "one verdict"


def test_an_open_change_of_the_environment_is_told_as_one_on_later_nights(lab: Lab, tmp_path: Path) -> None:
    with open_store(lab.db) as store:
        nights = Nights(store, board="0043", now=store.now() - 12 * DAY)
        nights.quiet(9, serial="A")
        swapped = nights.run(1.04, image="image 1", serial="B")
        nights.run(1.04, image="image 1", serial="B")
        nights.run(1.04, image="image 1", serial="B")
    headlines = []
    for run in range(swapped, swapped + 3):
        lab("run", str(run), "--summary", str(tmp_path / "verdict.txt"))
        headlines.append((tmp_path / "verdict.txt").read_text().partition(" (run")[0])
    (verdict,) = lab.json("list", "--board", "0043")
    assert (verdict["outcome"], verdict["since_run"]) == ("environment", swapped)
    assert "Environment: 1 number" in headlines
    assert not missing_facts(headlines[2], "Environment", f"run {swapped}", "boot.time sd +")
    lab("run", str(swapped), "--summary", str(tmp_path / "verdict.txt"))
    assert (tmp_path / "verdict.txt").read_text().startswith("Environment: 1 number")


def test_a_verdict_ends_with_the_acceptance_of_a_later_run(lab: Lab) -> None:
    lab("run", str(lab.second))
    assert [each["open"] for each in lab.json("list")] == [True]
    with open_store(lab.db) as store:
        third = Nights(store, seed=2, now=store.run(lab.second).started_at + DAY).run(1.03, image="slow")
    assert not missing_facts(lab("accept", str(third))[1], f"run {third}", "accepted by ann", "1 open verdicts")
    assert lab.json("list") == []
    (verdict,) = lab.json("list", "--all")
    assert not missing_facts(lab("show", f"v{verdict['id']}")[1], "over", "accepted")


def test_a_verdict_ends_when_the_number_moves_back(lab: Lab) -> None:
    lab("run", str(lab.second))
    with open_store(lab.db) as store:
        nights = Nights(store, seed=2, now=store.run(lab.second).started_at + DAY)
        nights.run(image="mended")
        nights.run(image="mended")
    assert lab("run", "latest")[0] == 0
    assert lab.json("list") == []
    assert [each["outcome"] for each in lab.json("list", "--all")] == ["improvement", "regression"]


def test_a_regression_of_a_night_that_was_not_judged_is_status_1_and_in_the_summary(lab: Lab, tmp_path: Path) -> None:
    with open_store(lab.db) as store:
        third = Nights(store, seed=2, now=store.run(lab.second).started_at + DAY).run(1.03, image="slow")
    summary = tmp_path / "verdict.md"
    for _ in range(2):
        code, said = lab("run", "latest", "--summary", str(summary))
        assert code == 1
        assert "1 numbers: 1 regression" in said
        assert not missing_facts(summary.read_text(), "Regression", "1 number", f"run {third}")
    assert [each["run"] for each in lab.json("list")] == [lab.second]


@pytest.mark.parametrize("media", [("sd",), ("sd", "emmc")])
@pytest.mark.parametrize("before", [0, 9])
def test_a_run_whose_cycles_all_failed_says_so_everywhere(
    lab: Lab, tmp_path: Path, before: int, media: tuple[str, ...]
) -> None:
    nights_ago = dt.datetime.now(dt.UTC) - DAY * (before + 1)
    with open_store(lab.db) as store:
        nights = Nights(store, board="0043", now=nights_ago)
        nights.quiet(before, media=media)
        nights.run(boots=0, failed=4, media=media)
    code, said = lab("run", "latest", "--summary", str(tmp_path / "verdict.txt"))
    assert code == 1
    assert not missing_facts(said, f"all {4 * len(media)} cycles", "failed", "lab results show ")
    headline = (tmp_path / "verdict.txt").read_text().splitlines()[0]
    assert not missing_facts(headline, f"All {4 * len(media)} cycles", "failed", "run ")
    assert not missing_facts(lab("list")[1], "failing", "0043", "11.01", "not boot")
    assert "0043" not in lab("list", "--board", "0042")[1]


def test_a_run_with_one_good_boot_fails_more_often(lab: Lab) -> None:
    with open_store(lab.db) as store:
        nights = Nights(store, board="0043")
        nights.quiet(9)
        nights.run(boots=1, failed=4)
    code, said = lab("run", "latest")
    assert "cycles failed" not in said
    assert code == 1, "it failed more often for sure"
    assert not missing_facts(said, "boot.failure_rate (sd)", "regression")
    assert not missing_facts(said, "80.0 % (37.6 to 96.4 %)", "0 of ")
    listed = lab("list")[1]
    assert not missing_facts(listed, "boot.failure_rate (sd)", "regression", "80.0 % (37.6 to 96.4 %)", "0 of ")
    assert "is broken" not in listed
    (verdict,) = [each for each in lab.json("list") if each["metric"] == "boot.failure_rate"]
    assert (verdict["failure_rate"]["failed"], verdict["failure_rate"]["before"]["failed"]) == (4, 0)


def test_a_run_without_a_history_says_what_it_needs(lab: Lab, tmp_path: Path) -> None:
    with open_store(lab.db) as store:
        Nights(store, board="0043").quiet(6)
    _, said = lab("run", "latest", "--summary", str(tmp_path / "verdict.txt"))
    assert not missing_facts(said, "1 numbers", "1 no history", "needs 8", "has 5")
    headline = (tmp_path / "verdict.txt").read_text().splitlines()[0]
    assert not missing_facts(headline, "Nothing", "needs 8", "has 5", "run ")


def test_a_run_of_which_another_would_tell_more_says_so_and_is_status_4(lab: Lab) -> None:
    code, said = lab("run", str(lab.first))
    assert code == 4
    assert "unsure: rerun asked" in said
    assert not missing_facts(said, "same image", f"--lab-confirms {lab.first}")


def test_the_json_of_a_verdict_has_all_of_it(lab: Lab) -> None:
    code, _ = lab("run", str(lab.second))
    (verdict,) = lab.json("show", str(lab.second))
    assert code == 1
    assert (verdict["outcome"], verdict["since_run"], verdict["n"], verdict["unit"]) == (
        "regression",
        lab.first,
        12,
        "s",
    )
    assert (verdict["worse"], verdict["open"], verdict["mode"], verdict["reruns"]) == (True, True, False, 0)
    assert verdict["low"] < verdict["effect"] < verdict["high"]
    assert list(verdict["differs"]) == ["image"]
    assert lab.json("run", str(lab.second)) == [verdict | {"judged_at": lab.json("show", "latest")[0]["judged_at"]}]
    assert lab.json("show", f"v{verdict['id']}") == lab.json("list") == lab.json("show", "latest")


def test_show_names_the_commands_that_print_the_evidence(lab: Lab) -> None:
    lab("run", "latest")
    code, said = lab("show", "latest")
    assert code == 0
    shown = (f"lab results show {lab.second} ", "--log", "--medium sd", "--metric boot.time")
    assert not missing_facts(said, *shown, f"lab report {lab.second}")
    assert "lower is better, n = 12" in said


def test_the_list_has_what_is_open_and_filters(lab: Lab) -> None:
    assert "no open verdicts" in lab("list")[1]
    lab("run", str(lab.first))
    lab("run", str(lab.second))
    assert [each["run"] for each in lab.json("list")] == [lab.second], (
        "a later run of the number settled the first one"
    )
    assert [each["run"] for each in lab.json("list", "--all")] == [lab.second, lab.first]
    assert lab.json("list", "--board", "0042", "--metric", "boot.time", "--since", "2026-03-01") != []
    code, refused = lab("list", "--board", "0043")
    assert code == 2
    assert not missing_facts(refused, "'0043'", "no run", "lab results list")
    assert lab.json("list", "--metric", "boot.stage") == []
    assert lab.json("list", "--since", "2026-11-22T06:00") == []


def test_an_accepted_run_is_closed_and_fails_nothing(lab: Lab) -> None:
    lab("run", "latest")
    assert lab("accept", str(lab.second), "--reason", "new compiler")[1].startswith(
        f"run {lab.second} is accepted by ann"
    )
    assert lab.json("list") == []
    assert not missing_facts(lab("list", "--all")[1], "accepted", "ann", "new compiler")
    assert lab("run", "latest")[0] == 0


def test_a_rejected_run_is_a_false_alarm_of_the_statistics(lab: Lab) -> None:
    lab("run", "latest")
    assert lab.json("reject", "latest", "--reason", "loose cable")["decision"] == "rejected"
    (month,) = lab.json("stats")
    assert (month["month"], month["runs"], month["regressions"], month["rejected"]) == ("2026-03", 1, 1, 1)
    assert "2026-03" in lab("stats")[1]
    code, said = lab("run", "latest")
    assert code == 2
    assert not missing_facts(said, "rejected", "counts")


def test_a_mute_has_nothing_fail_until_it_ends(lab: Lab) -> None:
    words = ("boot.*", "--until", "2999-12-24", "--params", "medium=s?", "--board", "0042")
    code, said = lab("mute", *words, "--reason", "known")
    assert code == 0
    assert not missing_facts(said, "boot.*", "medium=s?", "0042", "muted", "2999-12-24 00:00 UTC")
    assert lab("run", "latest")[0] == 0
    assert lab.json("list") == []
    assert not missing_facts(lab("list", "--all")[1], "muted until 2999-12-24", "ann", "known")
    assert lab("mute", "boot.time", "--until", "2026-01-01", "--reason", "x")[1].count("is past") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "yesterday"), "no run 'yesterday'; give its number, as `lab results list` has it, or latest"),
        (("run", "999"), "no run 999; the latest are: "),
        (("show", "999"), "no run 999"),
        (("show", "v999"), "no verdict v999; `lab judge list --all` has the verdicts"),
        (("show", "1"), "run 1 was not judged; judge it: lab judge run 1"),
        (("list", "--since", "soon"), "'soon' is no date; write it like 2026-11-22"),
        (("mute", "boot.time", "--until", "2999-01-01", "--reason", "x", "--params", "sd"), "write it like medium=sd"),
        (("accept", "0"), "no run '0'"),
    ],
)
def test_what_cannot_be_is_one_clear_error(lab: Lab, words: tuple[str, ...], says: str) -> None:
    code, said = lab(*words)
    assert code == 2
    assert says in said
    assert "Traceback" not in said


def test_an_empty_store_has_nothing_to_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = str(tmp_path / "results.db")
    open_store(db).close()
    assert main(["judge", "run", "latest", "--db", db]) == 2
    assert "no runs yet in" in capsys.readouterr().err
    assert main(["judge", "stats", "--db", db]) == 0
    assert "nothing was judged yet" in capsys.readouterr().out


def test_a_summary_for_ci_is_written_as_its_files_name_says(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_REPORTS", "https://lab.example.org/{run}.html")
    page, text = tmp_path / "s.html", tmp_path / "s.md"
    code, _ = lab("run", "latest", "--summary", str(text), "--summary", str(page))
    assert code == 1
    first, *rest = text.read_text().splitlines()
    assert not missing_facts(first, "Regression", "1 number", f"run {lab.second}")
    assert any(f"https://lab.example.org/{lab.first}.html#boot.time" in line for line in rest)
    assert page.read_text().startswith("<!doctype html>")


def test_a_summary_whose_name_says_nothing_is_refused_before_anything_is_judged(lab: Lab, tmp_path: Path) -> None:
    code, said = lab("run", "latest", "--summary", str(tmp_path / "s.pdf"))
    assert (code, missing_facts(said, ".md", ".html", ".txt")) == (2, [])
    assert "not judged" in lab("show", "latest")[1]
