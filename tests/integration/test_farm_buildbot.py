"""A real Buildbot over a farm of simulated boards: builds go side by side, killed workers and masters cost nothing, and who waits is told."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.atlength import either
from support.buildbot_farm import TOKENS, BuildbotFarm, running_farm, wait_for

from lab.farm import buildbot

CYCLES = 5
ATTEMPTS = either(2, 3)
BOARDS = ("am62xx_sk-1", "am62xx_sk-2")
SUCCESS, WARNINGS, EXCEPTION, RETRY = 0, 1, 4, 5
COMMIT = "c0ffee" * 6 + "c0de"


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildbotFarm]:
    with running_farm(tmp_path_factory.mktemp("farm"), len(BOARDS), 0.02, ATTEMPTS) as farm:
        yield farm


def request_of(answer: dict[str, list[object]]) -> int:
    """The number of the request that a forced build made, of one builder."""
    _, requests = answer["result"]
    (number,) = requests.values()  # type: ignore[attr-defined]
    return int(number)


def test_a_build_whose_worker_goes_in_the_wrong_moment_ends_all_the_same() -> None:
    """While it is prepared, after the ping, as it ends with an exception, and as it ends well. And an exception of a board keeps no other from its host."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [buildbot.find().with_name("python"), root / "tests" / "support" / "buildbot_lost_worker.py"],
        env={**os.environ, "PYTHONPATH": str(root / "farm" / "buildbot")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        *("retry True", "retry True", "exception True", "success True"),
        *("False 10", "True 20"),
    ]


def test_buildbots_module_skips_takes_and_tells_as_it_says(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    folders = f"{root / 'farm' / 'buildbot'}:{root / 'tests' / 'support'}"
    words = ["-m", "twisted.trial", "--temp-directory", tmp_path / "trial", "buildbot_queue"]
    done = subprocess.run(
        [buildbot.find().with_name("python"), *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": folders},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_who_has_not_logged_in_starts_nothing(farm: BuildbotFarm) -> None:
    assert "role" in farm.measure("am62xx_sk-1")["error"]["message"]


def test_a_release_is_measured_when_it_is_whole_and_for_the_board(farm: BuildbotFarm) -> None:
    folder = farm.desk.folder / "releases"
    commit = checkout(folder)
    release(folder, "other", b"other", "am654x-evm")
    release(folder, "broken", b"broken")
    release(folder, "11.02", b"whole image", image=b"whole i")
    wait_for(lambda: "11.02.yaml is not measured before it is right" in farm.log("buildbot"))
    assert farm.calls == []
    (folder / "11.02.img").write_bytes(b"whole image")
    path = folder / "11.02.yaml"
    subprocess.run(["git", "-C", folder, "add", path.name], check=True)
    subprocess.run([*commit, "11.02"], check=True)
    path.touch()
    wait_for(lambda: farm.calls)
    wait_for(lambda: [each for each in farm.listener.of("/hook") if each.body["release"] == "11.02"])
    (told,) = [each for each in farm.listener.of("/hook") if each.body["release"] == "11.02"]
    head = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert (told.body["release"], told.body["revision"]) == ("11.02", head.stdout.strip())
    assert [word for word in farm.calls[0].split() if word.startswith("--provision")] == [
        f"--provision={folder / '11.02.yaml'}"
    ]
    wait_for(lambda: farm.listener.of("/api/v2/alerts"))
    (alert,) = farm.listener.of("/api/v2/alerts")[0].body
    labels = {"alertname": "BoardlabBuildFailed", "severity": "ticket", "schedule": "new", "board": "am62xx_sk-1"}
    assert (alert["labels"], "broken" in alert["annotations"]["description"]) == (labels, True)


@pytest.mark.soak
def test_killed_workers_and_masters_cost_no_cycle_and_who_waits_is_next(farm: BuildbotFarm) -> None:
    farm.log_in()
    assert "error" in farm.measure("am62xx_sk-1", medium="sd; reboot")
    taken, unended = farm.calls, Path(f"{farm.desk.folder / 'calls'}.open")
    unended.touch()  # no build ends before its worker, and then its master, is killed, however slow this test is
    wanted = [request_of(farm.measure(board, cycles=CYCLES, medium="sd")) for board in BOARDS]
    wait_for(lambda: sorted(farm.samples()) == sorted(BOARDS) and min(map(len, farm.samples().values())) >= 1)
    running = [build for request in wanted for build in farm.builds(request)]
    assert [build["complete"] for build in running] == [False, False], "both are measured at the same time"
    night, person = (request_of(farm.measure(BOARDS[1], cycles=99, priority=each)) for each in (1, 10))
    later = request_of(farm.measure(BOARDS[1], "low_power", cycles=99, priority=1))
    kill(farm, "worker", farm.pid("worker"))
    master = farm.pid("buildbot")
    wait_for(lambda: [len(farm.builds(request)) for request in wanted] == [2, 2])
    kill(farm, "buildbot", master)
    unended.unlink()
    assert [farm.ended(request) for request in wanted] == [SUCCESS, SUCCESS]
    for request in wanted:  # it may find its board still held by the one that was killed, and is begun once more then
        *before, _ = [build["results"] for build in sorted(farm.builds(request), key=lambda build: build["buildid"])]
        assert len(before) >= 2, "one was lost with its worker, one with the master"
        assert set(before) == {RETRY}
    assert {board: [cycle for _, cycle in found] for board, found in farm.samples().items()} == {
        board: list(range(1, CYCLES + 1)) for board in BOARDS
    }
    for request in (person, night, later):
        farm.ended(request)
    last = [max(build["buildid"] for build in farm.builds(request)) for request in (person, night, later)]
    assert last == sorted(last), "a person is next, then who has waited longer"
    assert farm.calls == taken, "a master that is started again takes no release twice"


def kill(farm: BuildbotFarm, name: str, killed: int) -> None:
    """Kill a program, and wait until it is there again and the workers are connected."""
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: farm.pid(name) not in {0, killed})
    farm.wait_for_workers()


def test_the_night_waits_for_the_check_of_the_reference_board_and_persons_do_not(farm: BuildbotFarm) -> None:
    farm.log_in()
    checked = farm.calls
    check = request_of(farm.force("now-reference", f"check of {BOARDS[0]}"))
    wait_for(lambda: farm.builds(check))
    night, release, person = (request_of(farm.measure(BOARDS[1], cycles=99, priority=each)) for each in (0, 5, 10))
    assert farm.ended(person) == WARNINGS
    assert (farm.builds(night), farm.builds(release), farm.end_of(check)) == ([], [], None)
    Path(f"{farm.desk.folder / 'calls'}.checked").touch()
    assert [farm.ended(request) for request in (night, release)] == [WARNINGS, WARNINGS]
    assert farm.ended(check) == SUCCESS
    (call,) = farm.calls[len(checked) :]
    assert call.split()[:5] == [
        "health",
        BOARDS[0],
        "--check",
        "--env",
        str(farm.desk.folder / "virtual" / BOARDS[0] / "env.yaml"),
    ]


def test_who_has_the_reference_board_uses_up_none_of_its_checks_attempts(farm: BuildbotFarm) -> None:
    farm.log_in()
    busy, checked = (Path(f"{farm.desk.folder / 'calls'}.{what}") for what in ("busy", "checked"))
    busy.touch()
    checked.touch()
    check = request_of(farm.force("now-reference", f"check of {BOARDS[0]}"))
    wait_for(lambda: len(farm.builds(check)) > ATTEMPTS + 1)
    busy.unlink()
    assert farm.ended(check) == SUCCESS
    *waited, last = sorted(farm.builds(check), key=lambda build: build["number"])
    assert {build["results"] for build in waited} == {RETRY}
    assert all("is held by desk/lena" in build["state_string"] for build in waited)
    assert last["results"] == SUCCESS


def test_what_is_worse_for_sure_is_told_to_its_commit_and_to_the_webhook(farm: BuildbotFarm) -> None:
    farm.log_in()
    farm.ended(request_of(farm.measure("am62xx_sk-1", cycles=99, revision=COMMIT)))
    verdict = "boot.time (sd) on am62xx_sk-1: regression, +5.0 %"
    github, gitlab = f"/repos/lab/releases/statuses/{COMMIT}", f"/gitlab/api/v4/projects/7/statuses/{COMMIT}"
    wait_for(lambda: len(farm.listener.of(github)) == 2)
    pending, status = farm.listener.of(github)
    assert (pending.body["state"], status.body["state"]) == ("pending", "failure")
    assert (status.body["description"], status.body["context"]) == (
        f"worse: {verdict}",
        "boardlab/boot on am62xx_sk-1",
    )
    wait_for(lambda: len(farm.listener.of(gitlab)) == 2)
    assert [each.body["state"] for each in farm.listener.of(gitlab)] == ["running", "failed"]
    wait_for(lambda: [each for each in farm.listener.of("/hook") if each.body["revision"] == COMMIT])
    (hook,) = [each for each in farm.listener.of("/hook") if each.body["revision"] == COMMIT]
    assert hook.body["outcome"] == "worse"
    assert (hook.body["verdicts"], hook.body["job"], hook.body["board"]) == ([verdict], "j99", "am62xx_sk-1")
    seen = [each.authorization for each in (status, farm.listener.of(gitlab)[0], hook)]
    assert seen == ["token gh-secret", "gl-secret", "Bearer wh-secret"]
    for name in ("buildbot", "worker"):
        assert not [token for token in TOKENS.values() if token in farm.log(name)], "no token is in a log"
    assert not [token for token in TOKENS.values() if token in farm.desk.file.read_text()]


@pytest.mark.parametrize(
    ("cycles", "state", "described", "outcome"),
    [
        (97, "success", "measured, no number is worse for sure", "measured"),
        *(
            pytest.param(*ends, marks=pytest.mark.soak)  # buildbot_queue.py tells them apart, too
            for ends in (
                (98, "error", "measured, not judged: the reference board r1 failed its check", "unjudged"),
                (95, "error", "measured, not judged: numbers of run 9 may have moved", "unjudged"),
                (69, "error", "broken", "broken"),
            )
        ),
    ],
)
def test_only_what_the_judge_had_is_a_commits_success_and_the_labs_fault_is_none_of_its_failures(
    farm: BuildbotFarm, cycles: int, state: str, described: str, outcome: str
) -> None:
    farm.log_in()
    commit = f"{cycles:040d}"
    farm.ended(request_of(farm.measure("am62xx_sk-1", cycles=cycles, revision=commit)))
    github = f"/repos/lab/releases/statuses/{commit}"
    wait_for(lambda: len(farm.listener.of(github)) == 2)
    told = farm.listener.of(github)[-1].body
    assert (told["state"], told["description"]) == (state, described)
    wait_for(lambda: [each for each in farm.listener.of("/hook") if each.body["revision"] == commit])
    (hook,) = [each for each in farm.listener.of("/hook") if each.body["revision"] == commit]
    assert (hook.body["outcome"], hook.body["verdicts"]) == (outcome, [])


def test_one_medium_of_a_hub_is_written_at_a_time_and_a_board_has_one_build(farm: BuildbotFarm) -> None:
    """And who starts a build measures as that person."""
    writes, written = (Path(f"{farm.desk.folder / 'calls'}.{what}") for what in ("writes", "written"))
    farm.log_in("lena")
    first = request_of(farm.measure(BOARDS[0], provision="hub.yaml", mine=True))
    wait_for(writes.exists)
    assert "as=lena run --ignore-reservation --continue" in writes.read_text()
    farm.log_in()
    same_hub = request_of(farm.measure(BOARDS[1], provision="hub.yaml"))
    same_board = request_of(farm.measure(BOARDS[0], "low_power", cycles=97))
    neither = request_of(farm.measure(BOARDS[1], cycles=97))
    try:
        wait_for(lambda: farm.end_of(neither) is not None or farm.builds(same_hub))
        assert (farm.builds(same_hub), farm.builds(same_board)) == ([], []), "they were asked for before, and wait"
    finally:
        written.touch()
    assert [farm.ended(request) for request in (first, same_hub, same_board, neither)] == [SUCCESS] * 4
    found = [line.split() for line in writes.read_text().splitlines()]
    assert [(line[0], next(board for board in BOARDS if any(board in word for word in line))) for line in found] == [
        (what, board) for board in BOARDS for what in ("begin", "end")
    ]
    (one,), (other,) = farm.builds(first), farm.builds(same_board)
    assert other["started_at"] >= one["complete_at"]


def test_whoever_builds_a_persons_build_again_measures_not_as_that_person(farm: BuildbotFarm) -> None:
    """On a board that this person has reserved, perhaps."""
    farm.log_in("lena")
    request = request_of(farm.measure(BOARDS[1], cycles=96, mine=True))
    assert farm.ended(request) == SUCCESS
    farm.log_in()
    (build,) = farm.builds(request)
    assert farm.ended(request_of(farm.rebuild(build["buildid"]))) == SUCCESS
    first, again = Path(f"{farm.desk.folder / 'calls'}.persons").read_text().splitlines()
    assert first.startswith("as=lena run --ignore-reservation ")
    assert again.startswith("as= run --continue "), "it is refused where the board is reserved"


def test_a_build_that_gets_its_board_never_is_given_up(farm: BuildbotFarm) -> None:
    farm.log_in()
    request = request_of(farm.measure("am62xx_sk-1", cycles=75))
    assert farm.ended(request) == EXCEPTION
    found = sorted(farm.builds(request), key=lambda build: build["number"])
    assert [build["results"] for build in found] == [*[RETRY] * ATTEMPTS, EXCEPTION]
    assert "given up" in found[-1]["state_string"]


def checkout(folder: Path) -> list[object]:
    """Make a checkout of git; the command that commits there."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    who = ["-c", "user.name=lab", "-c", "user.email=lab@example.org", "-c", "commit.gpgsign=false"]
    return ["git", "-C", folder, *who, "commit", "-q", "-m"]


def release(folder: Path, name: str, whole: bytes, board_type: str = "am62xx_sk", image: bytes | None = None) -> None:
    """Write a release file and its image, of which perhaps only a part is there."""
    (folder / f"{name}.img").write_bytes(whole if image is None else image)
    digest = hashlib.sha256(whole).hexdigest()
    media = {"sd": {"image": {"source": f"{name}.img", "sha256": digest}}}
    document = {"boards": [board_type], "media": media, "identity": {"kernel": name}}
    draft = folder / f"{name}.draft"
    draft.write_text(yaml.safe_dump(document))
    draft.rename(folder / f"{name}.yaml")
