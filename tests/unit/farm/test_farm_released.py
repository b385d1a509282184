"""`every: release` on one host: what appears in the folder is measured once, when it is whole, right and for the board."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from attrs import define, field
from support.facts import missing_facts

from lab.cli import main
from lab.cli import release as release_command
from lab.errors import ConfigurationError, LabStableError
from lab.farm import release_watch
from lab.farm.config import Farm, load
from lab.farm.runner import UNCONFIRMED, WORSE
from lab.farm.systemd import units
from lab.provision import releasefile
from lab.provision.releasefile import find

ENV = "targets: {main: {drivers: [{BoardStrategy: {board: one, board_type: am62xx_sk}}]}}\n"
SCHEDULE = "{name: new, env: one.yaml, board: one, cycles: 4, every: release, release: newest in releases, medium: sd}"


@define
class Host:
    """A lab's folder, whose program `lab` is played: it writes down its words and ends as `code` says."""

    folder: Path
    said: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        (self.folder / "releases").mkdir()
        (self.folder / "envs").mkdir()
        (self.folder / "envs" / "one.yaml").write_text(ENV)
        (self.folder / "code").write_text("0")
        program = self.folder / "lab"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/calls\nexit $(cat {self.folder}/code)\n')
        program.chmod(0o755)
        text = f"directory: {self.folder}\nprogram: {program}\nschedules: [{SCHEDULE}]\n"
        (self.folder / "farm.yaml").write_text(text)

    @property
    def farm(self) -> Farm:
        return load(self.folder / "farm.yaml")

    @property
    def measured(self) -> list[str]:
        """The releases of the calls."""
        path = self.folder / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        return [Path(word).stem for call in calls for word in call.split() if word.startswith("--provision=")]

    def release(self, name: str, image: bytes = b"whole", board_type: str = "am62xx_sk") -> Path:
        folder = self.folder / "releases"
        (folder / f"{name}.img").write_bytes(image)
        part = {"source": f"{name}.img", "sha256": hashlib.sha256(b"whole").hexdigest()}
        document = {"boards": [board_type], "media": {"sd": {"image": part}}, "identity": {"kernel": name}}
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    def look(self) -> int:
        return release_watch.of(self.farm, "new", self.folder / "state", self.said.append).measure()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_watch, "settle", lambda _path, _sleep: None)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_is_there_at_the_first_look_is_known_and_what_comes_then_is_measured_once(host: Host) -> None:
    host.release("11.01")
    assert (host.look(), host.measured) == (0, [])
    host.release("11.02")
    assert (host.look(), host.look(), host.measured) == (0, 0, ["11.02"])
    (call,) = (host.folder / "calls").read_text().splitlines()
    path = host.folder / "releases" / "11.02.yaml"
    order = (
        f"--suite boot --env {host.folder}/envs/one.yaml --cycles 4 --medium=sd --provision={path} --health --judge"
    )
    assert call == f"run --scheduled --continue --wait {release_watch.WAIT_S} {order}"


def test_several_are_measured_in_the_order_in_which_they_came(host: Host) -> None:
    host.look()
    for name in ("b", "a"):
        host.release(name)
    assert (host.look(), host.measured) == (0, ["b", "a"])


def test_a_release_for_other_boards_is_passed_over(host: Host) -> None:
    host.look()
    host.release("11.02", board_type="am654x-evm")
    assert (host.look(), host.measured, host.said[1:]) == (0, [], [])


def test_a_wrong_one_is_told_once_holds_up_no_other_and_is_measured_when_it_is_right(host: Host) -> None:
    host.look()
    host.release("half", image=b"who")
    host.release("next")
    assert (host.look(), host.measured) == (2, ["next"])
    (told,) = [line for line in host.said if "half" in line]
    assert not missing_facts(told, "half.yaml", "not measured")
    assert "not copied whole" in told
    assert (host.look(), len([line for line in host.said if "half" in line])) == (0, 1)
    (host.folder / "releases" / "half.img").write_bytes(b"whole")
    assert (host.look(), host.measured) == (0, ["next", "half"])


@pytest.mark.parametrize("code", [75, 130, 2, 69, 139])
def test_a_run_that_did_not_measure_is_made_up_for_at_the_next_look(host: Host, code: int) -> None:
    host.look()
    host.release("11.02")
    (host.folder / "code").write_text(str(code))
    assert host.look() == (1 if code in {69, 139} else code)
    (host.folder / "code").write_text("3")
    assert (host.look(), host.look(), host.measured) == (3, 0, ["11.02", "11.02"])


def test_what_an_editor_leaves_beside_a_release_is_no_release(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host.look()
    folder = host.folder / "releases"
    (folder / ".#11.02.yaml").symlink_to("lena@desk.4711")
    (folder / "gone.yaml").symlink_to("nothing")
    (folder / ".draft.yaml").write_text("boards: [")
    host.release("11.02")
    assert (host.look(), host.measured) == (0, ["11.02"])
    assert main(["release", "list", str(folder), "--json"]) == 0
    assert [found["name"] for found in json.loads(capsys.readouterr().out)] == ["11.02"]
    assert find("newest in releases", "am62xx_sk", host.folder).name == "11.02"


@pytest.mark.parametrize("code", [1, UNCONFIRMED, WORSE])
def test_a_run_that_was_measured_is_not_begun_again(host: Host, code: int) -> None:
    host.look()
    host.release("11.02")
    (host.folder / "code").write_text(str(code))
    assert (host.look(), host.look(), host.measured) == (code, 0, ["11.02"])


def test_who_ends_it_ends_the_run_first(host: Host) -> None:
    host.look()
    host.release("11.02")
    (host.folder / "lab").write_text(
        "#!/bin/sh\ntrap 'echo asked; exit 130' TERM\necho ready\nwhile :; do sleep 0.1; done\n"
    )
    script = "import sys; from lab.cli import main; sys.exit(main())"
    words = ["farm", "released", str(host.folder / "farm.yaml"), "new", "--state", str(host.folder / "state")]
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (130, "asked\n")
    assert json.loads((host.folder / "state" / "new.json").read_text())["known"] == []


def test_who_ends_it_while_a_release_is_still_copied_does_not_wait_for_the_copy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.look()
    host.release("11.02")

    def copied(_path: Path, sleep: Callable[[float], None]) -> None:
        signal.raise_signal(signal.SIGTERM)
        sleep(0.0)
        pytest.fail("it waits on")

    monkeypatch.setattr(release_watch, "settle", copied)
    with pytest.raises(KeyboardInterrupt):
        host.look()
    assert host.measured == []


def test_a_damaged_state_and_a_missing_folder_are_told_with_their_mend(host: Host) -> None:
    host.look()
    (host.folder / "state" / "new.json").write_text("{")
    with pytest.raises(LabStableError, match="delete it"):
        host.look()
    (host.folder / "releases").rmdir()
    with pytest.raises(ConfigurationError, match="make it"):
        host.look()
    with pytest.raises(ConfigurationError, match="there are: new"):
        release_watch.of(host.farm, "nightly", host.folder, print)


def test_a_schedule_of_releases_names_its_folder_and_never_comes_due(host: Host) -> None:
    assert host.farm.schedules[0].releases == str(host.folder / "releases")
    assert host.farm.timed == []
    path = host.folder / "farm.yaml"
    path.write_text(path.read_text().replace("newest in releases", "'11.01'"))
    with pytest.raises(ConfigurationError, match="newest in DIR"):
        load(path)


def test_systemd_looks_when_the_folder_changes_and_when_the_host_was_off(host: Host, tmp_path: Path) -> None:
    found = units(host.farm, "/etc/boardlab/farm.yaml")
    assert f"PathChanged={host.folder}/releases\n" in found["boardlab-new.path"]
    assert "OnActiveSec=1s" in found["boardlab-new.timer"]
    assert "OnCalendar" not in found["boardlab-new.timer"]
    assert (
        f"ExecStart={host.folder}/lab farm released /etc/boardlab/farm.yaml new --state /var/lib/boardlab/released\n"
        in found["boardlab-new.service"]
    )
    assert "\nStartLimitIntervalSec=0\n" in found["boardlab-new.service"], "each file that comes starts it"
    names = [name for name in found if name.startswith("boardlab-new.")]
    for name in names:
        (tmp_path / name).write_text(found[name].replace("User=boardlab", "User=daemon"))
    words = ["systemd-analyze", "verify", "--man=no", *(tmp_path / name for name in names)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "boardlab-new" in line]
    assert said == []


def test_a_file_settles_once_nobody_writes_it_or_its_images(host: Host) -> None:
    path = host.release("11.02", image=b"w")
    image = host.folder / "releases" / "11.02.img"
    left = [b"who", b"whole"]

    def copied_meanwhile(seconds: float) -> None:
        waited.append(seconds)
        if left:
            image.write_bytes(left.pop(0))

    waited: list[float] = []
    releasefile.settle(path, copied_meanwhile)
    assert (len(waited), image.read_bytes()) == (3, b"whole")


def test_a_file_that_is_written_for_ever_is_named(host: Host) -> None:
    path = host.release("11.02")

    def grown(_seconds: float) -> None:
        with path.open("a") as file:
            file.write("#\n")

    with pytest.raises(ConfigurationError, match=r"10 s .*11\.02\.yaml\)"):
        releasefile.settle(path, grown, patience_s=10)


@pytest.mark.parametrize(("board_type", "fits"), [("am62xx_sk", True), ("am654x-evm", False)])
def test_a_queue_is_told_whether_a_release_is_right_and_for_its_board(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    board_type: str,
    fits: bool,
) -> None:
    waited: list[Path] = []
    monkeypatch.setattr(release_command, "settle", waited.append)
    monkeypatch.chdir(host.folder)
    path = host.release("11.02", board_type=board_type)
    assert main(["release", "check", str(path), "--settled", "--json", "--env", "one.yaml"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"file": str(path), "problems": [], "fits": fits}]
    assert waited == [path]
