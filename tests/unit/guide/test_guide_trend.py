"""A metric over several releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import guide_family
import pytest
from guide_family import GuideText, table

from lab.errors import ConfigurationError
from lab.guide import figures, reading, sheet, show, trend
from lab.guide.sheet import Sheet


def releases(folder: Path, values: Mapping[str, str]) -> list[Sheet]:
    found = []
    for release, row in values.items():
        text = GuideText(
            f"Linux {release} Performance Guide", tables=[table("Benchmarks,a1-fs: perf", row, title="LMBench")]
        )
        path = folder / f"{release}.rst"
        path.write_text(guide_family.text(text))
        found.append(sheet.of_guide(reading.read(path)))
    return found


def test_points_follow_their_releases_not_the_order_of_the_files(tmp_path: Path) -> None:
    sheets = releases(
        tmp_path,
        {
            "11.01": "lat_sem (us),3.00",
            "9.2.1": "lat_sem (us),1.70",
            "09.02": "lat_sem (us),1.60",
            "10.00": "lat_sem (us),2.00",
        },
    )
    (series,) = trend.of_guides(sheets, "lmbench.latency", "a1-fs", {})
    assert [(p.release, p.value) for p in series.points] == [
        ("09.02", 1.6),
        ("9.2.1", 1.7),
        ("10.00", 2.0),
        ("11.01", 3.0),
    ]
    assert (series.unit, series.better) == ("us", "lower")
    assert list(show.trend([series]))[-1].strip() == "▁▁▃█"


def test_each_set_of_parameters_is_a_series_and_may_be_chosen(sheets: Mapping[str, Sheet]) -> None:
    two = [sheets["am62x-11.01.rst"], sheets["am62x-09.02.rst"]]
    found = trend.of_guides(two, "lmbench.bw_mem", "am62xx_sk-fs", {"size": "1mb"})
    assert len(found) == 9
    (rd,) = trend.of_guides(two, "lmbench.bw_mem", "am62xx_sk-fs", {"size": "1mb", "operation": "rd"})
    assert [(p.release, p.value, p.low) for p in rd.points] == [("09.02.00", 1282.29, None), ("11.01", 1303.54, None)]


def test_a_broken_run_is_marked(sheets: Mapping[str, Sheet]) -> None:
    two = [sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"]]
    (aes,) = trend.of_guides(two, "ipsec.throughput", "am62xx_sk-fs", {"algorithm": "aes128"})
    assert [bool(p.note) for p in aes.points] == [False, True]


def test_ranges_are_kept(sheets: Mapping[str, Sheet]) -> None:
    boot = trend.of_guides([sheets["am62x-11.01.rst"]], "boot.time", "am62xx_sk-fs", {})
    assert [(p.low, p.high) for p in boot[0].points] == [(15.96, 16.42)]


def test_what_is_not_there_is_said_with_what_is(sheets: Mapping[str, Sheet], tmp_path: Path) -> None:
    one = [sheets["am62x-11.01.rst"]]
    with pytest.raises(ConfigurationError, match=r"no guide has the metric 'boot.tyme'; there are: .*boot.time"):
        trend.of_guides(one, "boot.tyme", "am62xx_sk-fs", {})
    with pytest.raises(ConfigurationError, match="of board 'am62'; there are: am62xx_lp_sk-fs, am62xx_sk-fs"):
        trend.of_guides(one, "boot.time", "am62", {})
    path = tmp_path / "guide.rst"
    path.write_text(
        guide_family.mini(
            table("Benchmarks,a1-fs: perf", "lat_sem (us),1.00", title="LMBench"), title="Performance Guide"
        )
    )
    with pytest.raises(ConfigurationError, match="neither its title nor its name tells the release"):
        trend.of_guides([sheet.of_guide(reading.read(path))], "lmbench.latency", "a1-fs", {})


def test_a_trend_is_drawn(sheets: Mapping[str, Sheet], tmp_path: Path) -> None:
    found = trend.of_guides([sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"]], "boot.time", "am62xx_sk-fs", {})
    figures.trends(found, tmp_path / "boot.svg")
    drawn = (tmp_path / "boot.svg").read_text()
    assert "<svg" in drawn
    with pytest.raises(ConfigurationError, match="cannot be written"):
        figures.trends(found, tmp_path / "none" / "boot.svg")


@pytest.mark.parametrize(("values", "bars"), [([1.0, 2.0], "▁█"), ([5.0, 5.0], "▄▄"), ([], ""), ([3.0], "▄")])
def test_bars(values: list[float], bars: str) -> None:
    assert "".join(show.bars(values)) == bars
