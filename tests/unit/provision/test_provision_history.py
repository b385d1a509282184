"""The label of a run is what was put on the board, whatever somebody types."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.errors import ConfigurationError
from lab.provision import history
from lab.provision.history import Provision, ProvisionState
from lab.provision.provisioning import ProgressPrinter, line
from lab.provision.release import Expected, read_answer
from lab.provision.releasefile import find
from lab.provision.writer import Meter, WriteProgress


def known(medium: str, release: str, state: ProvisionState = "booted") -> dict[str, Provision]:
    at = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
    return {
        medium: Provision("t", "b", medium, release, "c", "way", id=1, state=state, at=at, software={"kernel": "K"})
    }


SD = known("sd", "11.01")


def test_a_provisioned_board_names_its_runs_and_no_default_does() -> None:
    assert history.run_label("b", ["sd"], SD, "", "9.9") == "11.01"
    assert history.run_label("b", ["sd"], SD, "11.01", "9.9") == "11.01"


def test_a_label_by_hand_that_says_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"11\.00: b .*11\.01 on sd"):
        history.run_label("b", ["sd"], SD, "11.00", "9.9")


def test_a_board_that_nobody_provisioned_has_the_label_that_was_given() -> None:
    assert history.run_label("b", ["sd"], {}, "mine", "9.9") == "mine"
    assert history.run_label("b", ["emmc"], SD, "", "9.9") == "9.9"


@pytest.mark.parametrize("state", ["writing", "written", "failed"])
@pytest.mark.parametrize("given", ["11.01", "mine", ""])
def test_a_release_that_was_not_seen_to_boot_labels_nothing(state: ProvisionState, given: str) -> None:
    put = known("sd", "11.01", state)
    with pytest.raises(ConfigurationError, match=r"^sd of b .*lab provision"):
        history.run_label("b", ["sd"], put, given, "")
    with pytest.raises(ConfigurationError, match=r"^sd of b .*no release"):
        history.check_resumed("b", ["sd"], put, "11.01", 5)
    assert history.run_document(["sd"], put) == {}


@pytest.mark.parametrize("other", [known("emmc", "11.00"), {}])
def test_a_run_over_media_with_different_software_is_refused(other: dict[str, Provision]) -> None:
    with pytest.raises(ConfigurationError, match=r"different releases"):
        history.run_label("b", ["sd", "emmc"], {**SD, **other}, "", "")


def test_a_run_is_not_resumed_on_another_release() -> None:
    history.check_resumed("b", ["sd"], SD, "11.01", 5)
    history.check_resumed("b", ["sd"], {}, "by hand", 5)
    with pytest.raises(ConfigurationError, match=r"run 5 .*'11\.00'"):
        history.check_resumed("b", ["sd"], SD, "11.00", 5)


def test_the_provenance_says_what_was_put_there() -> None:
    assert history.run_document(["sd", "emmc"], SD) == {
        "sd": {"release": "11.01", "content": "c", "way": "way", "software": {"kernel": "K"}}
    }


def test_build_ids_are_read_as_os_release_writes_them() -> None:
    text = 'ID=arago\nBUILD_ID="2026 11"\n'
    assert read_answer("build_id", text) == "2026 11"
    assert read_answer("build_id", "ID=arago\n") == ""
    assert read_answer("build_id", 'BUILD_ID="open') == '"open'


def test_what_is_expected_and_not_said_is_a_difference() -> None:
    expected = Expected(kernel=r"6\.12", build_id="^7$")
    assert list(expected.questions) == ["build_id"]
    assert expected.differences({"kernel": "Linux version 6.12.1", "build_id": "7"}) == []
    kernel, build_id = expected.differences({"kernel": "Linux version 6.6"})
    assert not missing_facts(kernel, "kernel", "'Linux version 6.6'")
    assert not missing_facts(build_id, "BUILD_ID", "/etc/os-release", "not seen")


def release_file(folder: Path, name: str, board: str, at: int) -> None:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"boards: [{board}]\nmedia: {{sd: {{image: {{source: x, sha256: {'ab' * 32}}}}}}}\nidentity: {{kernel: x}}\n"
    )
    os.utime(path, (at, at))


def test_the_newest_release_of_a_folder_is_the_last_written_for_the_board_type(tmp_path: Path) -> None:
    release_file(tmp_path, "z-old", "mine", 1_000)
    release_file(tmp_path, "a-new", "mine", 2_000)
    release_file(tmp_path, "other", "theirs", 3_000)
    assert find(f"newest in {tmp_path}", "mine", Path("/")).name == "a-new"
    assert find("newest in .", "mine", tmp_path).name == "a-new"
    assert find("z-old.yaml", "mine", tmp_path).name == "z-old"
    for url in ("https://joe:hunter2@builds.lan/z.yaml", "newest in https://joe:hunter2@builds.lan/"):
        with pytest.raises(ConfigurationError, match=r"joe:\*\*\*@.*lab host"):
            find(url, "mine", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no release file.*nobodys"):
        find(f"newest in {tmp_path}", "nobodys", tmp_path)
    (tmp_path / "wrong.yaml").write_text("boards: 7\n")
    with pytest.raises(ConfigurationError, match=r"wrong\.yaml"):
        find(f"newest in {tmp_path}", "mine", tmp_path)
    with pytest.raises(ConfigurationError, match="there is no folder"):
        find("newest in nowhere", "mine", tmp_path)


def test_progress_is_told_each_tenth_and_each_half_minute() -> None:
    said: list[str] = []
    teller = ProgressPrinter(said.append)
    mib = 1024 * 1024
    for percent in range(101):
        teller(WriteProgress("rootfs", percent * mib, 100 * mib, percent * 10**8))
    assert len(said) == 11
    assert not missing_facts(
        line(WriteProgress("tispl.bin", 512, 2048, 1_000_000_000)),
        "tispl.bin",
        "25 %",
        "0.5 of 2.0 KiB",
        "0.5 KiB/s",
        "3 s",
    )
    assert not missing_facts(said[5], "rootfs", "50 %", "50.0 of 100.0 MiB", "10.0 MiB/s", "5 s")
    teller(WriteProgress("rootfs", 100 * mib, 100 * mib, 50 * 10**9))
    assert len(said) == 12


def test_a_write_without_a_byte_for_too_long_is_a_stall() -> None:
    now = [0]
    meter = Meter(100, lambda _p: None, lambda: now[0], stall_s=5.0)
    meter.begin("tispl.bin")
    meter.add(10)
    now[0] = 4_000_000_000
    meter.check()
    now[0] = 6_000_000_000
    with pytest.raises(Exception, match=r"tispl.* 5 s.*10 of 100") as caught:
        meter.check()
    assert getattr(caught.value, "failure", "") == "write_stalled"
