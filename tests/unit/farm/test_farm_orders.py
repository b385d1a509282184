"""An order is looked at before anything is switched on: `lab run` refuses it, `lab farm check` names the schedule."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.byhand import by_hand
from support.facts import missing_facts
from typer.testing import CliRunner

from lab.cli import farm as commands
from lab.cli import main
from lab.errors import ConfigurationError, LabStableError, LabTransientError
from lab.farm import job_request, runner
from lab.farm.runner import BROKEN, BUSY, Runner
from lab.run import options

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = ROOT / "envs" / "sim-am62x.yaml"
WRONG: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
    (("boot",), {"energy": True}, "energy: it affects only low_power, and the job runs only boot"),
    (
        ("low_power", "crypto"),
        {"init": "/bin/sh"},
        "init: it affects only boot, and the job runs only low_power, crypto",
    ),
    (("boot",), {"medium": "nand"}, "medium: nand: am62xx_sk has sd, emmc, ospi"),
    (("low_power",), {"mode": "dozing"}, "mode: dozing: am62xx_sk has deep_sleep"),
    (("sections",), {"sections": "lmbnch"}, "sections: there is no section 'lmbnch'; did you mean lmbench?"),
    (("sections",), {"sections": "nand-ubifs", "destructive": True}, "nand-ubifs: am62xx_sk does not have what it"),
    (
        ("sections",),
        {"sections": "sd-fio"},
        "sd-fio overwrites the scratch medium sd: allow it with the option `destr",
    ),
    (("sunspots",), {}, "no suite 'sunspots'"),
]
RIGHT: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("boot",), {"medium": "sd,ospi", "init": "/bin/sh", "retries": 0}),
    (("boot", "low_power"), {"medium": "sd", "init": "/bin/sh", "energy": True, "mode": "deep_sleep"}),
    (("sections",), {"sections": ["sd-fio", "uboot-sd", "lmbench"], "destructive": True}),
    (("uboot_mmcsd",), {"destructive": True}),
]


def found(env: Path, suites: tuple[str, ...], given: dict[str, Any]) -> list[str]:
    return list(job_request.problems(ROOT / "tests_perf", suites, options.read(given), env))


@pytest.mark.parametrize(("suites", "given", "says"), WRONG)
def test_what_a_board_or_a_suite_does_not_have_is_one_problem(
    suites: tuple[str, ...], given: dict[str, Any], says: str
) -> None:
    (problem,) = found(SIMULATED, suites, given)
    assert says in problem


def test_a_board_without_driven_straps_has_the_one_medium_of_its_switches(tmp_path: Path) -> None:
    env = tmp_path / "by-hand.yaml"
    env.write_text(by_hand(SIMULATED, "emmc"))
    assert found(env, ("boot",), {"medium": "emmc"}) == []
    assert found(env, ("boot",), {}) == []
    (problem,) = found(env, ("boot",), {"medium": "emmc,sd"})
    assert "medium: sd" in problem
    assert "set to emmc" in problem


@pytest.mark.parametrize(("suites", "given"), RIGHT)
def test_what_the_board_has_is_taken(suites: tuple[str, ...], given: dict[str, Any]) -> None:
    assert found(SIMULATED, suites, given) == []


def test_a_scratch_medium_is_named_in_the_environment_or_it_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "am62x.yaml"
    text = re.sub(r"\n {8}scratch:\n( {10}.*\n)+", "\n        seconds: 60\n", SIMULATED.read_text())
    assert "scratch" not in text
    path.write_text(text)
    (one,) = found(path, ("sections",), {"destructive": True, "sections": "sd-fio"})
    assert not missing_facts(one, "sd-fio", "'sd'", f"{path}: targets.main.options.benchmarks.scratch")
    (all_of_them,) = found(path, ("sections",), {"destructive": True})
    assert "emmc, sd, " in all_of_them
    path.write_text(text.replace("seconds: 60", "scratch: {sd: /dev/mmcblk1p3}"))
    assert found(path, ("sections",), {"destructive": True, "sections": "sd-fio,sd-ext4"}) == []
    assert found(path, ("sections",), {"destructive": True}) == []


def test_energy_needs_rails(tmp_path: Path) -> None:
    path = tmp_path / "am62x.yaml"
    path.write_text(SIMULATED.read_text().replace("      - RailsDriver: {}\n", ""))
    (problem,) = found(path, ("low_power",), {"energy": True})
    assert not missing_facts(problem, "energy: ", "RailSensors", "RailsDriver")


def test_lab_run_refuses_a_wrong_order_before_it_is_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--env", str(SIMULATED), "--db", str(tmp_path / "results.db"))
    assert main(["run", "--sections", "sd-fio", *words]) == 2
    assert not missing_facts(capsys.readouterr().err, "error: sections: sd-fio", "overwrites", "sd")
    assert main(["run", "--init", "sh", *words]) == 2
    assert not missing_facts(capsys.readouterr().err, "error: --init 'sh'", "path")
    assert main(["jobs", "list", "--db", str(tmp_path / "results.db")]) == 0
    assert "no jobs yet" in capsys.readouterr().out


def test_farm_check_names_the_schedule_and_its_mend(tmp_path: Path) -> None:
    entries = [
        {"name": f"s{number}", "env": "sim-am62x.yaml", "board": "am62xx_sk-1", "suite": ",".join(suites), **given}
        for number, (suites, given, _) in enumerate(WRONG)
    ]
    entries += [
        {"name": f"r{number}", "env": "sim-am62x.yaml", "board": "am62xx_sk-1", "suite": ",".join(suites), **given}
        for number, (suites, given) in enumerate(RIGHT)
    ]
    path = tmp_path / "farm.yaml"
    path.write_text(yaml.safe_dump({"directory": str(ROOT), "schedules": entries}))
    done = CliRunner().invoke(commands.app, ["check", str(path)])
    assert done.exit_code == 2
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"{path}: schedules: ")]
    assert len(lines) == len(WRONG)
    for number, (line, (_, _, says)) in enumerate(zip(lines, WRONG, strict=True)):
        assert f"{path}: schedules: s{number}: " in line
        assert says in line


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("destructive: 3", "destructive: 3: write true or false"),
        ("medium: {a: 1}", "medium: {'a': 1}: write a name, or several with commas between them"),
        ("init: sh", "init: 'sh': write the path of a program on the board, e.g. /bin/sh"),
        ("options: {}", "no key 'options' here"),
        ("energie: true", "no key 'energie' here; is 'energy' meant?"),
        ("colour: 1", "no key 'colour' here; there are: name, env, board, suite, release"),
        ("every: dayy", "'every' must be in ('day', 'week', 'release') (got 'dayy')"),
    ],
)
def test_a_wrong_value_in_farm_yaml_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entry: str, says: str
) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text(f"schedules: [{{name: n, env: e, board: b, {entry}}}]")
    assert main(["farm", "check", str(path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.endswith("@ farm.yaml.schedules[0]\n")
    assert said.count("\n") == 1


def test_a_schedule_of_sections_needs_no_suite(tmp_path: Path) -> None:
    path = tmp_path / "farm.yaml"
    path.write_text("schedules: [{name: n, env: sim-am62x.yaml, board: am62xx_sk-1, sections: [lmbench]}]")
    assert commands.load(path).schedules[0].suite == "sections"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LabTransientError("labgrid's coordinator does not answer"), BUSY),
        (LabStableError("the results are damaged"), BROKEN),
        (ConfigurationError("one.yaml: it ends early"), 2),
        (ZeroDivisionError("a fault of boardlab's"), BROKEN),
    ],
)
def test_a_job_that_ended_before_it_measured_does_not_end_as_one_that_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    def ends(*_args: object) -> int:
        raise error

    monkeypatch.setattr(Runner, "run", ends)
    words = ["run", "--env", str(SIMULATED), "--db", str(tmp_path / "results.db")]
    assert main(words) == code
    assert str(error) in capsys.readouterr().err
    monkeypatch.setattr(Runner, "run", lambda *_args: 1)
    assert main(words) == 1


# --- A board by its type, and the job as JSON ---


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab's folder with two simulated boards, whose pytest is played."""
    shutil.copytree(ROOT / "strategies", tmp_path / "strategies")
    (tmp_path / "envs").mkdir()
    text = SIMULATED.read_text()
    for name in ("am62xx_sk-1", "am62xx_sk-2"):
        (tmp_path / "envs" / f"{name}.yaml").write_text(text.replace("am62xx_sk-1", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(runner, "command", lambda *_args: ["echo", "pytest writes"])
    return tmp_path


def test_a_job_is_printed_as_json_at_its_end_and_nothing_else_is(
    played: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--release", "11.01", "--db", str(played / "results.db"), "--json"]
    assert main(["run", "--type", "am62xx_sk", *words]) == 0
    printed = capfd.readouterr()
    found = json.loads(printed.out)
    assert (found["job"], found["board"], found["state"], found["exit_code"]) == ("j1", "am62xx_sk-1", "completed", 0)
    assert "pytest writes" in printed.err
    assert main(["run", "--env", "am62xx_sk-2", *words]) == 0
    assert json.loads(capfd.readouterr().out)["board"] == "am62xx_sk-2"


def test_a_type_without_a_board_is_refused_with_what_is_wrong_with_each(
    played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ["--db", str(played / "results.db")]
    assert main(["run", "--type", "am64xx_evm", *db]) == 2
    assert "no board of that type" in capsys.readouterr().err
    assert main(["run", "--type", "am62xx_sk", "--medium", "nand", *db]) == 2
    assert "am62xx_sk-2: medium: nand" in capsys.readouterr().err
