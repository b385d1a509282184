"""Which software a run was of, whatever its label says, and where a person reads that the two do not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts
from test_judge_baseline import START

from exporters.results import ResultsReader
from lab.cli import main
from lab.judge.builds import Build, build_of, remarks
from lab.judge.causes import causes_of
from lab.results import AttemptRecord, SampleRecord, Store, open_store
from lab.results.snapshot import watch

OLD = {"uboot": "U-Boot 2025.01-g1", "kernel": "Linux version 6.12.1 #1"}
NEW = {**OLD, "kernel": "Linux version 6.12.2 #1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "results.db")) as store:
        yield store


def measured(
    store: Store,
    release: str,
    software: dict[str, str],
    *,
    images: dict[str, str] | None = None,
    board: str = "b1",
    board_type: str = "am62xx_sk",
    of_board: dict[str, str] | None = None,
    medium: str = "sd",
) -> int:
    provenance = {"images_sha256": images or {}}
    run = store.begin_run("boot", board_type, board, release, plan={}, provenance=provenance).id
    samples = (SampleRecord("boot.time", {"medium": "sd"}, 2.5, 0.001),)
    details: dict[str, object] = {"software": software} if software else {}
    if of_board:
        details |= {"cross_check": {"software": of_board}, "medium_seen": {"spl": medium}}
    store.record_attempt(
        run,
        AttemptRecord(1, 1, {"medium": "sd"}, "ok", None, None, "", START, 1.0, samples, details=details),
    )
    store.finish_run(run, "completed")
    return run


def said(store: Store, run: int) -> list[str]:
    with watch(store.url).snapshot() as snapshot:
        return remarks(snapshot, run)


def test_the_same_build_under_one_label_is_nothing_to_say(store: Store) -> None:
    measured(store, "11.01", OLD)
    assert said(store, measured(store, "11.01", OLD)) == []


def test_a_label_whose_build_changed_is_said_with_both(store: Store) -> None:
    first = measured(store, "11.01", OLD)
    second = measured(store, "11.01", NEW)
    assert said(store, first) == []
    (remark,) = said(store, second)
    assert not missing_facts(remark, "'11.01'", f"run {first}", "now the kernel", "6.12.2 #1", "then", "6.12.1 #1")
    assert said(store, measured(store, "11.01", NEW)) == [], "it is the build of the run before"


def test_one_build_under_two_labels_is_said_with_all_of_them(store: Store) -> None:
    image = {"root": "a" * 64}
    for label in ("11.00", "nightly", "nightly"):
        measured(store, label, OLD, images=image)
    (remark,) = said(store, measured(store, "11.01", OLD, images=image))
    assert not missing_facts(remark, "same build", "'nightly' (run 3), ", "'11.00' (run 1)")


def test_equal_version_lines_are_no_proof_of_one_build_and_few_labels_are_named(store: Store) -> None:
    for number in range(5):
        measured(store, f"main-{number}", OLD)
    (remark,) = said(store, measured(store, "11.01", OLD))
    assert "same build" not in remark
    assert not missing_facts(remark, "'main-4' (run 5)", "'main-3' (run 4)", "'main-2' (run 3)", "2 more")


def test_images_tell_builds_apart_that_print_the_same(store: Store) -> None:
    measured(store, "11.01", OLD, images={"root": "a" * 64})
    (remark,) = said(store, measured(store, "11.01", OLD, images={"root": "b" * 64}))
    assert "now the images 'sha256 " in remark


def test_another_board_of_the_type_has_the_same_builds_and_another_type_has_not(store: Store) -> None:
    measured(store, "11.01", OLD)
    measured(store, "11.01", OLD, board_type="am64xx_sk")
    assert len(said(store, measured(store, "11.01", NEW, board="b2"))) == 1
    assert said(store, measured(store, "12.00", NEW, board_type="j721e_evm")) == []


def test_what_is_not_known_is_not_another_build(store: Store) -> None:
    measured(store, "11.01", {})
    assert said(store, measured(store, "11.01", OLD)) == []
    assert said(store, measured(store, "12.00", {})) == []


def test_builds_are_compared_by_what_is_known_of_both() -> None:
    whole = build_of({"images_sha256": {"root": "a"}}, [{}, {"software": OLD}])
    assert whole == Build(OLD["uboot"], OLD["kernel"], whole.images)
    assert whole.is_same(Build(kernel=OLD["kernel"]))
    assert not Build().is_same(Build())
    assert Build(kernel="a").differences(Build(uboot="b", kernel="c")) == {"kernel": ("a", "c")}
    assert not build_of({"images_sha256": "nonsense"}, [{"software": 7}]).is_known


def test_the_exporter_counts_builds_of_a_label_and_labels_of_a_build(store: Store) -> None:
    for release, software in (("11.00", OLD), ("11.01", OLD), ("11.01", NEW), ("11.01", NEW), ("12.00", {})):
        measured(store, release, software)
    measured(store, "nightly", NEW, board="b2")
    reader = ResultsReader(watch(store.url))
    found = {(each.board, each.release): (each.builds, each.labels) for each in reader.read().builds}
    assert found == {("b1", "11.00"): (1, 2), ("b1", "11.01"): (2, 2), ("b2", "nightly"): (1, 2)}
    measured(store, "11.01", OLD)
    again = {(each.board, each.release): (each.builds, each.labels) for each in reader.read().builds}
    assert again["b1", "11.01"] == (2, 2)


def test_results_show_and_the_report_say_it(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(store, "11.01", OLD)
    run = measured(store, "11.01", NEW)
    assert main(["results", "show", str(run), "--db", store.url]) == 0
    shown = capsys.readouterr().out
    assert not missing_facts(" ".join(shown.split()), "another build", "run 1")
    assert f"  kernel: {NEW['kernel']}\n" in shown
    page = tmp_path / "a.html"
    assert main(["report", str(run), "-o", str(page), "--db", store.url]) == 0
    assert not missing_facts(page.read_text(encoding="utf-8"), "another build", "run 1")
    assert "software.kernel" in page.read_text(encoding="utf-8")
    for command, code in (("run", 4), ("compare", 0)):  # the judge needs a longer history
        assert main(["judge", command, str(run), "--db", store.url]) == code
        assert not missing_facts(" ".join(capsys.readouterr().out.split()), "'11.01'", "another build", "run 1")


@pytest.mark.parametrize("part", ["uboot", "kernel", "images", "user_space"])
def test_a_build_is_known_by_any_part(part: str) -> None:
    assert Build(**{part: "x"}).is_known
    assert not Build().is_known


# --- What the board itself says ---


def of_board(dice: random.Random, **changed: str) -> dict[str, str]:
    """A board's answer on a medium, with what differs from boot to boot, medium to medium and board to board."""
    root = dice.choice(("PARTUUID=076c4a2a-02", "/dev/mmcblk0p1", "ubi0:rootfs ubi.mtd=ospi.rootfs"))
    kind = "ubifs" if root.startswith("ubi") else "ext4"
    return {
        "os_release": 'NAME="Arago" BUILD_ID=7',
        "modules": "0" * 32,
        "device_tree": f"{dice.getrandbits(128):032x}",
        "command_line": f"console=ttyS2,115200n8 root={root} rw rootfstype={kind} rootwait "
        f"androidboot.serialno={dice.getrandbits(32):x} eth=70:ff:76:1f:00:{dice.getrandbits(8):02x}",
    } | changed


@pytest.mark.parametrize("seed", range(6))
def test_the_user_space_is_the_same_on_all_media_and_boards(seed: int) -> None:
    dice = random.Random(seed)
    one, other = (build_of({}, [{"software": OLD, "cross_check": {"software": of_board(dice)}}]) for _ in range(2))
    assert one.user_space
    assert one.is_same(other)
    assert causes_of("11.01", {}, [{"cross_check": {"software": of_board(dice)}}])["user_space"] == one.user_space


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["os_release", "modules", "command_line"])
def test_a_change_in_user_space_alone_is_another_build(store: Store, seed: int, name: str) -> None:
    dice = random.Random(seed)
    before = of_board(dice)
    after = {
        "os_release": f"BUILD_ID={dice.randrange(8, 99)}",
        "modules": f"{dice.getrandbits(128):032x}",
        "command_line": before["command_line"] + dice.choice((" quiet", " maxcpus=1", " preempt=full")),
    }[name]
    first = measured(store, "11.01", OLD, of_board=before)
    second = measured(store, "11.01", OLD, of_board={**of_board(dice), name: after})
    (remark,) = said(store, second)
    assert not missing_facts(remark, "another build", f"run {first}", "user space")


def test_another_root_file_system_of_the_same_medium_is_another_build(store: Store) -> None:
    before = of_board(random.Random(1), root_options="rw,relatime ext4 /dev/root rw")
    after = {**before, "root_options": "rw,relatime btrfs /dev/root rw"}
    measured(store, "11.01", OLD, of_board=before)
    assert "now the root file system" in said(store, measured(store, "11.01", OLD, of_board=after))[0]
    assert said(store, measured(store, "11.01", OLD, of_board=before, medium="emmc")) == []


def test_a_quiet_kernel_is_known_by_what_the_board_says() -> None:
    found = build_of({}, [{"cross_check": {"software": {"kernel_build": OLD["kernel"]}}}])
    assert found.kernel == OLD["kernel"]
