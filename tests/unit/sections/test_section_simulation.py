"""What simulated boards play: published numbers with noise, marked as what they are."""

from __future__ import annotations

from pathlib import Path

import guide_figures
import pytest
from support import guide_family
from support.section_bench import section_bench

from lab.benchmarks.sections import ALL
from lab.metrics import Flag
from lab.virtual.sim import figures
from lab.virtual.sim.timing import dice

OPENSSL = {section.name: section for section in ALL}["openssl"]


def test_the_played_figures_are_those_of_the_five_guides(tmp_path: Path) -> None:
    for name, content in guide_figures.files(guide_family.family(tmp_path)).items():
        assert (figures.FOLDER / name).read_text(encoding="utf-8") == content, (
            f"python tools/guide_figures.py writes {name}"
        )


@pytest.mark.parametrize("board_type", ["am62xx_sk", "am43xx-gpevm"])
def test_openssl_on_a_board_gives_its_published_numbers_within_the_noise_and_not_the_same_twice(
    tmp_path: Path, board_type: str
) -> None:
    with section_bench(tmp_path, board_type) as bench:
        bench.run.measure(OPENSSL)
        assert all(attempt.ok for attempt in bench.store.attempts(bench.run.run.id))
        samples = bench.store.samples(bench.run.run.id)
        assert all(Flag.SIMULATED in sample.flags for sample in samples)
        known = figures.load(board_type, bench.lab.board.model.release_name)
        for sample in samples:
            if known.has(sample.metric, **sample.params) and sample.metric == "openssl.throughput":
                published = known.figure(sample.metric, 0.0, **sample.params).value
                assert sample.value == pytest.approx(published, rel=3.1 * figures.NOISE)
        again = bench.session(OPENSSL)
        first = [sample.value for sample in samples]
        assert [r.value for r in OPENSSL.measure(again)] != first


def test_a_range_of_a_guide_is_the_spread_of_the_draws_and_a_board_without_a_guide_has_numbers_of_its_relatives() -> (
    None
):
    known = figures.load("am62xx_sk", "11.01")
    params = {"medium": "emmc", "filesystem": "ext4", "buffer": "102400", "direction": "write"}
    draws = [known.draw(dice(1, n), "storage.file.throughput", **params) for n in range(400)]
    assert sum(draws) / len(draws) == pytest.approx(51.83, rel=0.01)
    assert (max(draws) - min(draws)) == pytest.approx(6 * (52.61 - 49.52) / 2.326, rel=0.25)
    assert figures.load("am62xx_sk", "10.00") == figures.load("am62xx_sk", "09.02")
    assert figures.load("no-such-board", "1").draw(dice(1), "stream.bandwidth", 5.0) == pytest.approx(5.0, rel=0.02)
