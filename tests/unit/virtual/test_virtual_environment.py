from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lab import boards
from lab.virtual import environment
from lab.virtual.board import BoardAccess, BoardFolder
from lab.virtual.qemu import debian_board

ENV = Path(__file__).parents[3] / "envs" / "virtual.yaml"


def test_the_environment_in_the_repository_is_the_default_benchs() -> None:
    assert ENV.read_text(encoding="utf-8") == environment.default(), (
        "both come from lab/virtual/qemu/data/env.yaml.in; change that, then write environment.default() to envs/virtual.yaml"
    )


def test_the_command_that_measures_a_bench_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, env, tests = shlex.split(environment.measuring(Path("a bench")))
    assert env == f"--lg-env={tmp_path / 'a bench' / 'env.yaml'}"
    assert Path(tests) == ENV.parents[1] / "tests_perf"


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0\n", exclude_categories=["C"]), min_size=1))
def test_the_environment_of_a_bench_names_its_files_whatever_its_folder_is_called(name: str) -> None:
    folder = Path("/bench") / name
    place = BoardAccess(BoardFolder(folder / "board-7"), "127.0.0.1:16500", "127.0.0.1:1", 1.0)
    target = yaml.safe_load(environment.of_board(place))["targets"]["main"]
    assert target["resources"]["RawSerialPort"]["port"] == f"{folder}/board-7/uart0"
    assert target["resources"]["PDUDaemonPort"] == {"host": "127.0.0.1:16500", "pdu": "bench/board-7", "index": 1}
    outputs = [
        driver["FileDigitalOutputDriver"] for driver in target["drivers"] if "FileDigitalOutputDriver" in driver
    ]
    assert [output["filepath"] for output in outputs] == [f"{folder}/board-7/straps/bit{bit}" for bit in range(2)]


@pytest.mark.parametrize(
    ("board_type", "scratch", "uboot"),
    [
        (
            "qemu-virt",
            {"emmc": "/dev/nvme0n1p3", "sd": "/dev/vda3", "emmc_blocks": "0x200000", "sd_fat": "0:4"},
            {"sd": "virtio 0", "emmc": "nvme 0"},
        ),
        (
            "bpim2u",
            {"emmc": "/dev/mmcblk1p3", "sd": "/dev/mmcblk0p3", "emmc_blocks": "0x200000", "sd_fat": "0:4"},
            {"sd": "mmc 0", "emmc": "mmc 1"},
        ),
        ("sifive_u", {"sd": "/dev/mmcblk0p3", "sd_fat": "0:4"}, {"sd": "mmc 0", "spi_nor": "sf"}),
    ],
)
def test_a_board_with_benchmark_programs_has_scratch_partitions_and_a_tester_behind_its_cable(
    board_type: str, scratch: dict[str, str], uboot: dict[str, str]
) -> None:
    place = BoardAccess(BoardFolder(Path("/bench") / "board-7"), "127.0.0.1:16500", "127.0.0.1:1", 1.0)
    site = debian_board.text(f"{board_type}.site")
    plain, whole = (yaml.safe_load(environment.of_board(place, board_type, site=text)) for text in ("", site))
    assert whole["targets"]["main"].pop("options") == {"benchmarks": {"scratch": scratch, "uboot": uboot}}
    (driver,) = whole["targets"].pop("tester")["drivers"]
    assert driver["TesterDriver"]["command"] == [
        *("lab", "virtual", "tester", "--board", "board-7", "--dir", "/bench")
    ]
    assert whole == plain


@pytest.mark.parametrize(
    ("board_type", "media"),
    [("qemu-virt", {"emmc", "ospi"}), ("bpim2u", {"emmc"}), ("sifive_u", {"spi_nor"})],
)
def test_every_medium_of_a_board_that_releases_are_put_on_has_somebody_who_writes_it(
    board_type: str, media: set[str]
) -> None:
    place = BoardAccess(BoardFolder(Path("/bench") / "board-7"), "127.0.0.1:16500", "127.0.0.1:1", 1.0)
    writers = debian_board.text(f"{board_type}.writers")
    target = yaml.safe_load(environment.of_board(place, board_type, writers=writers))["targets"]["main"]
    drivers = {name: settings for driver in target["drivers"] for name, settings in driver.items()}
    assert set(drivers["UBootWriterDriver"]["media"]) == media
    assert {"sd", *media} == set(boards.load(board_type).media)
    assert drivers["UBootWriterDriver"].get("folder", "/bench/board-7/tftp") == "/bench/board-7/tftp"
    assert target["resources"]["VirtualSDMux"]["image"] == "/bench/board-7/sdmux/sd.img"
