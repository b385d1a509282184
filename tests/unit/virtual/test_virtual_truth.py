from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts

from lab.errors import ConfigurationError
from lab.virtual.truth_log import PowerEvent, Truth, TruthLog, read_truth

SPEED_BD = 10_000_000  # a byte takes 1000 ns


def written(path: Path, *chunks: tuple[int, bytes]) -> Path:
    log = TruthLog(path, SPEED_BD)
    for end_ns, data in chunks:
        log.data(end_ns, end_ns, data)
    log.close()
    return path


def test_a_match_is_timed_by_its_last_byte_across_chunks(tmp_path: Path) -> None:
    path = written(tmp_path / "truth.log", (10_000, b"Starting ker"), (24_000, b"nel ...\r\nnext"))
    assert read_truth(path).find(rb"Starting kernel \.\.\.") == [24_000 - 6_000]


def test_matches_can_be_limited_to_one_boot(tmp_path: Path) -> None:
    path = written(tmp_path / "truth.log", (1_000, b"login: "), (90_000, b"login: "))
    truth = read_truth(path)
    assert truth.find(b"login: ", start_ns=2_000) == [90_000]
    assert truth.find(b"login: ", end_ns=90_000) == [1_000]


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=30))
def test_every_byte_has_the_time_that_follows_from_the_pacing(chunks: list[bytes]) -> None:
    ends = [10_000_000 * (number + 1) for number in range(len(chunks))]
    truth = Truth(SPEED_BD, list(zip(ends, chunks, strict=True)), 0, [])
    expected = [
        end_ns - 1000 * behind
        for end_ns, data in zip(ends, chunks, strict=True)
        for behind in reversed(range(len(data)))
    ]
    assert [truth.left_ns(position) for position in range(len(truth.data))] == expected


def test_power_events_and_overruns_are_kept_apart_from_the_bytes(tmp_path: Path) -> None:
    log = TruthLog(tmp_path / "truth.log", SPEED_BD)
    log.power(100, "on")
    log.data(2_000, 2_000, b"ab")
    log.overrun(3_000, 14)
    log.power(4_000, "off")
    log.close()
    truth = read_truth(tmp_path / "truth.log")
    assert truth.power == (PowerEvent(100, "on"), PowerEvent(4_000, "off"))
    assert truth.data == b"ab"
    assert truth.lost == 14


@given(cut=st.integers(0, 60))
def test_a_log_cut_by_a_kill_gives_every_whole_record(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("truth") / "truth.log"
    written(path, (1_000, b"first"), (9_000, b"second"))
    header = path.read_bytes().index(b"\n") + 1
    path.write_bytes(path.read_bytes()[: header + cut])
    assert read_truth(path).data in {b"", b"first", b"firstsecond"}


def test_a_bench_that_comes_back_continues_the_log(tmp_path: Path) -> None:
    path = written(tmp_path / "truth.log", (1_000, b"one"))
    written(path, (5_000, b"two"))
    assert read_truth(path).data == b"onetwo"


def test_a_full_disk_ends_the_log_once_and_the_board_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    log = TruthLog(Path("/dev/full"), SPEED_BD)
    for end_ns in range(3):
        log.data(end_ns, end_ns, b"x" * 100)
        log.flush()
    log.close()
    (record,) = caplog.records
    assert not missing_facts(record.message, "/dev/full", "No space left", "ends here")


@pytest.mark.parametrize("content", [b"", b"boot log\n", b"\x00\xff"])
def test_a_file_that_is_no_truth_log_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "truth.log").write_bytes(content)
    with pytest.raises(ConfigurationError, match="expected a truth log"):
        read_truth(tmp_path / "truth.log")


def test_a_missing_truth_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the truth log"):
        read_truth(tmp_path / "none.log")
