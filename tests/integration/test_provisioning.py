"""A simulated board on a real bench is provisioned by the commands, and its runs are called what is on it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve
from support.facts import missing_facts
from support.measuring_lab import ROOT, Lab, running_lab

from lab.host.clock import utc_now
from lab.jobs import listing
from lab.jobs.queue import JobQueue
from lab.jobs.records import BY_PROVISION, Order
from lab.provision.history import NewProvision, ProvisionBook
from lab.provision.provisioning import content_digest
from lab.provision.releasefile import load
from lab.results import open_store

DEADLINE_S = 180
BOARD = "am62xx_sk-1"
WRITER = ROOT / "tests" / "support" / "playedwriter.py"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("provisioning")
    with running_lab(folder, "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield lab


@pytest.fixture(autouse=True)
def _nothing_written(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has results of its own, and media that nothing is known of."""
    monkeypatch.setitem(lab.environ, "LAB_DB", f"sqlite:///{tmp_path / 'results.db'}")
    for medium in ("sd", "emmc"):
        (lab.folder / medium).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def env(lab: Lab) -> Path:
    """The board's environment, with a driver that writes its media."""
    document = yaml.safe_load((lab.bench.folder / BOARD / "env.yaml").read_text(encoding="utf-8"))
    written = {"PlayedWriterDriver": {"folder": str(lab.folder), "media": ["sd", "emmc"]}}
    document["targets"]["main"]["drivers"].append(written)
    document["imports"].append(str(WRITER))
    path = lab.bench.folder / BOARD / "written.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def a_release(folder: Path, name: str, kernel: str = "Linux version 6", media: tuple[str, ...] = ("sd",)) -> Path:
    data = f"image of {name}".encode()
    (folder / f"{name}.wic").write_bytes(data)
    entry = {"image": {"source": f"{name}.wic", "sha256": hashlib.sha256(data).hexdigest()}}
    document: dict[str, Any] = {
        "boards": ["am62xx_sk"],
        "media": dict.fromkeys(media, entry),
        "identity": {"kernel": kernel},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def lab_command(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", *words],
        env=lab.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_S,
        check=False,
    )


def session(lab: Lab, env: Path, *words: str) -> tuple[int, str]:
    """A session of pytest over one boot from the SD card: its exit code and what it printed."""
    before = len(lab.log) if (lab.folder / "pytest.log").exists() else 0
    process = lab.pytest("--lg-env", str(env), "--lab-medium", "sd", "--lab-cycles", "1", *words)
    code = process.wait(DEADLINE_S)
    return code, lab.log[before:]


def labels(lab: Lab) -> list[str]:
    with open_store(lab.environ["LAB_DB"]) as store:
        return [run.release for run in store.runs()]


def states(lab: Lab) -> dict[str, tuple[str, str]]:
    with open_store(lab.environ["LAB_DB"]) as store:
        return {m: (each.release, each.state) for m, each in ProvisionBook(store).current(BOARD).items()}


def test_from_a_release_file_to_runs_that_are_called_like_it(lab: Lab, env: Path) -> None:
    first, second = a_release(lab.folder, "11.00"), a_release(lab.folder, "11.01")
    provision = ("provision", "--env", str(env))

    planned = lab_command(lab, *provision, "--release", str(first), "--dry-run")
    assert (planned.returncode, planned.stdout.splitlines()[0]) == (
        0,
        f"sd: would write 11.00 by file to {lab.folder}/sd, 0.0 kB in 1 step",
    ), planned.stderr
    assert not (lab.folder / "sd").exists()
    assert states(lab) == {}

    done = lab_command(lab, *provision, "--release", str(first), "--json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)
    assert document["verified"]["method"] == "full"
    assert document["software"]["kernel"].startswith("Linux version 6")
    assert (lab.folder / "sd").read_bytes() == b"image of 11.00"
    assert states(lab) == {"sd": ("11.00", "booted")}

    code, said = session(lab, env)
    assert (code, labels(lab)[0]) == (pytest.ExitCode.OK, "11.00"), said
    code, said = session(lab, env, "--lab-release", "11.01")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert not missing_facts(said, "with 11.00 on sd")
    assert len(labels(lab)) == 1

    words = ("run", "--env", str(env), "--medium", "sd", "--cycles", "1", "--provision")
    ran = lab_command(lab, *words, f"newest in {lab.folder}")
    assert ran.returncode == 0, ran.stderr
    assert labels(lab)[0] == "11.01", "the one that was written last"
    assert states(lab) == {"sd": ("11.01", "booted")}
    assert (lab.folder / "sd").read_bytes() == b"image of 11.01"
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        assert run.provenance["provisioned"]["sd"]["release"] == "11.01"
    refused = lab_command(lab, *words, str(second), "--release", "mine")
    assert refused.returncode == 2
    assert "leave --release out" in refused.stderr

    good = lab_command(lab, *provision, "--release", str(second), "--verify-only")
    assert good.returncode == 0, good.stderr
    other = lab_command(lab, *provision, "--release", str(first), "--verify-only")
    assert (other.returncode, states(lab)) == (1, {"sd": ("11.01", "booted")})


FIRST_BOOT = """
import pytest

@pytest.mark.cycles(2, start="first")
def test_first(measure, strategy):
    measure.moment("app.login", "login: ")
    measure("app.uptime", float(strategy.shell.run_check("cat /proc/uptime")[0].split()[0]), unit="s", better="lower", resolution=0.01)

@pytest.mark.cycles(1)
def test_other(measure, strategy):
    strategy.transition("linux")
    measure.moment("app.login", "login: ")
"""


def test_a_first_boot_is_a_number_of_its_own_and_each_of_its_cycles_writes_the_release(lab: Lab, env: Path) -> None:
    (file := lab.folder / "test_first_boot.py").write_text(FIRST_BOOT)
    release = a_release(lab.folder, "16.00")

    done = lab.runs(lab.folder, "--lg-env", env, file, "--lab-provision", release, timeout_s=DEADLINE_S)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    with open_store(lab.environ["LAB_DB"]) as store:
        (run,) = store.runs()
        numbers = {(m.metric.name, m.params.get("start", "")): m for m in store.measurements(run.id)}
        written = [each.state for each in ProvisionBook(store).latest()], run.release
    assert {name: len(number.samples) for name, number in numbers.items()} == {
        ("app.login", "first"): 2,
        ("app.uptime", "first"): 2,
        ("app.login", ""): 1,
    }
    assert written == (["booted"], "16.00")
    assert done.stdout.count(f"provisioning {BOARD} with 16.00: sd") == 1 + 2, (
        "the session's own write, and one a cycle"
    )


def test_what_boots_and_is_not_the_release_is_not_measured_until_somebody_looked(lab: Lab, env: Path) -> None:
    wrong = a_release(lab.folder, "12.00", kernel="Linux version 99")
    failed = lab_command(lab, "provision", "--env", str(env), "--release", str(wrong))
    assert failed.returncode == 1
    assert "something else boots" in failed.stderr
    with open_store(lab.environ["LAB_DB"]) as store:
        job = listing.jobs(store, 1, utc_now())[0].job
    shown = lab_command(lab, "jobs", "show", job.called)
    assert f"lab provision --env {env} --release {wrong} --medium sd" in " ".join(shown.stdout.split())
    assert states(lab)["sd"] == ("12.00", "failed")
    before = len(labels(lab))
    code, said = session(lab, env)
    assert code != pytest.ExitCode.OK
    assert not missing_facts(said, "sd of am62xx_sk-1", "no release")
    code, said = session(lab, env, "--lab-provision", str(wrong))
    assert code == 1
    assert "[release_mismatch, fault: lab]" in said
    assert len(labels(lab)) == before
    forgotten = lab_command(lab, "provision", "--env", str(env), "--forget", "--medium", "sd")
    assert forgotten.returncode == 0, forgotten.stderr
    code, said = session(lab, env, "--lab-release", "by-hand")
    assert (code, labels(lab)[0]) == (pytest.ExitCode.OK, "by-hand"), said


@pytest.mark.soak
def test_a_release_that_was_refused_or_never_booted_labels_no_run(lab: Lab, env: Path) -> None:
    media = ("sd", "emmc")
    wrong = a_release(lab.folder, "15.00", kernel="Linux version 99", media=media)
    right = a_release(lab.folder, "15.01", kernel="Linux version 6", media=media)
    run = ("run", "--env", str(env), "--medium", "emmc", "--cycles", "1")
    before = len(labels(lab))

    failed = lab_command(lab, "provision", "--env", str(env), "--release", str(wrong), "--medium", ",".join(media))
    assert (failed.returncode, states(lab)) == (1, dict.fromkeys(media, ("15.00", "failed")))
    refused = lab_command(lab, *run)
    assert (refused.returncode != 0, len(labels(lab))) == (True, before), refused.stdout
    assert not missing_facts(refused.stdout + refused.stderr, "emmc of am62xx_sk-1", "no release")

    killed_before_the_boot(lab, wrong)
    other = lab_command(lab, *run)
    assert (other.returncode, len(labels(lab))) == (1, before), other.stdout
    assert "[release_mismatch" in other.stdout
    assert states(lab) == dict.fromkeys(media, ("15.00", "failed"))

    killed_before_the_boot(lab, right)
    same = lab_command(lab, *run)
    assert (same.returncode, labels(lab)[0], len(labels(lab))) == (0, "15.01", before + 1), same.stdout
    assert states(lab) == {"sd": ("15.01", "written"), "emmc": ("15.01", "booted")}
    with open_store(lab.environ["LAB_DB"]) as store:
        assert store.runs()[0].provenance["provisioned"]["emmc"]["release"] == "15.01"


def killed_before_the_boot(lab: Lab, path: Path) -> None:
    """The record as `lab provision` leaves it when it is killed between the read-back and the first boot."""
    release = load(path)
    with open_store(lab.environ["LAB_DB"]) as store:
        book = ProvisionBook(store)
        for medium, content in release.media.items():
            digest = content_digest(content)
            new = NewProvision("am62xx_sk", BOARD, medium, release.name, digest, "file", job_id=1)
            book.note_written(book.begin(evolve(new, identity=release.identity.document)), "d" * 64, "full", 1)


def test_a_board_that_somebody_has_is_not_written(lab: Lab, env: Path) -> None:
    release = a_release(lab.folder, "13.00")
    with open_store(lab.environ["LAB_DB"]) as store:
        queue = JobQueue(store, "elsewhere/1/1", lambda _holder: None, program=BY_PROVISION)
        job = queue.enqueue(Order("am62xx_sk", BOARD, ("provision",), str(env), "", None))
        assert queue.start(job.id) is not None
        busy = lab_command(lab, "provision", "--env", str(env), "--release", str(release))
        queue.finish(job.id, "completed")
    assert (busy.returncode, "is busy" in busy.stderr) == (75, True), busy.stderr
    assert states(lab).get("sd", ("", ""))[0] != "13.00"


def test_a_medium_that_the_environment_cannot_write_is_refused_before_the_board_is_touched(
    lab: Lab, env: Path
) -> None:
    release = a_release(lab.folder, "14.00", media=("sd", "ospi"))
    refused = lab_command(lab, "provision", "--env", str(env), "--release", str(release))
    assert refused.returncode == 2
    assert not missing_facts(refused.stderr, "nothing", "write ospi")
    assert not (lab.folder / "sd").exists()
