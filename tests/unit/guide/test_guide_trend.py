"""A metric over several releases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support import guide_family
from support.guide_family import GuideText, table

from lab.errors import ConfigurationError
from lab.figures import write
from lab.guide import measurements
from lab.guide.compare import trend
from lab.guide.compare.trend import PublishedPoint, Trend, TrendPoint
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.guide.write import figures, terminal


def releases(folder: Path, values: Mapping[str, str]) -> list[MeasuredGuide]:
    found = []
    for release, row in values.items():
        text = GuideText(
            f"Linux {release} Performance Guide", tables=[table("Benchmarks,a1-fs: perf", row, title="LMBench")]
        )
        path = folder / f"{release}.rst"
        path.write_text(guide_family.text(text))
        found.append(measurements.of_guide(reader.read(path)))
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
    (series,) = trend.trends_of_guides(sheets, "lmbench.latency", "a1-fs", {})
    assert [(p.release, p.value) for p in series.points] == [
        ("09.02", 1.6),
        ("9.2.1", 1.7),
        ("10.00", 2.0),
        ("11.01", 3.0),
    ]
    assert (series.unit, series.better) == ("us", "lower")
    assert list(terminal.draw_trends([series]))[-1].strip() == "▁▂▃█"


def test_each_set_of_parameters_is_a_series_and_may_be_chosen(sheets: Mapping[str, MeasuredGuide]) -> None:
    two = [sheets["am62x-11.01.rst"], sheets["am62x-09.02.rst"]]
    found = trend.trends_of_guides(two, "lmbench.bw_mem", "am62xx_sk-fs", {"size": "1mb"})
    assert len(found) == 9
    (rd,) = trend.trends_of_guides(two, "lmbench.bw_mem", "am62xx_sk-fs", {"size": "1mb", "operation": "rd"})
    assert [(p.release, p.value, p.low) for p in rd.points] == [("09.02.00", 1282.29, None), ("11.01", 1303.54, None)]


def test_a_broken_run_is_marked(sheets: Mapping[str, MeasuredGuide]) -> None:
    two = [sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"]]
    (aes,) = trend.trends_of_guides(two, "ipsec.throughput", "am62xx_sk-fs", {"algorithm": "aes128"})
    assert [bool(p.note) for p in aes.points] == [False, True]


def test_a_number_per_clock_is_marked_where_its_clock_is_doubted(tmp_path: Path) -> None:
    sheets = []
    for release, clock, speed in (("11.02", 400.0, 8.9), ("12.00", 1400.0, 2.5)):
        rows = (f"cpu_clock (MHz),{clock:.2f}", f"dhrystone_per_mhz (DMIPS/MHz),{speed:.2f}")
        modules = [("AM62x SK", "AM62x Starter Kit with ARM running at 1.4GHz, DDR data rate 1600 MT/S")]
        tables = [table("Benchmarks,am62xx_sk-fs: perf", *rows, title="Dhrystone Benchmarks")]
        path = tmp_path / f"{release}.rst"
        path.write_text(guide_family.text(GuideText(f"Linux {release} Performance Guide", "rst", modules, tables)))
        sheets.append(measurements.of_guide(reader.read(path)))
    for metric in ("cpu.clock", "dhrystone.per_mhz"):
        (series,) = trend.trends_of_guides(sheets, metric, "am62xx_sk-fs", {})
        assert [bool(p.note) for p in series.points] == [True, False], metric


def test_ranges_are_kept(sheets: Mapping[str, MeasuredGuide]) -> None:
    boot = trend.trends_of_guides([sheets["am62x-11.01.rst"]], "boot.time", "am62xx_sk-fs", {})
    assert [(p.low, p.high) for p in boot[0].points] == [(15.96, 16.42)]


def test_what_is_not_there_is_said_with_what_is(sheets: Mapping[str, MeasuredGuide], tmp_path: Path) -> None:
    one = [sheets["am62x-11.01.rst"]]
    with pytest.raises(ConfigurationError, match=r"'boot.tyme'.*boot.time"):
        trend.trends_of_guides(one, "boot.tyme", "am62xx_sk-fs", {})
    with pytest.raises(ConfigurationError, match=r"'am64'; .*am62xx_sk-fs"):
        trend.trends_of_guides(one, "boot.time", "am64", {})
    path = tmp_path / "guide.rst"
    path.write_text(
        guide_family.mini(
            table("Benchmarks,a1-fs: perf", "lat_sem (us),1.00", title="LMBench"), title="Performance Guide"
        )
    )
    with pytest.raises(ConfigurationError, match=r"guide\.rst.*rename"):
        trend.trends_of_guides([measurements.of_guide(reader.read(path))], "lmbench.latency", "a1-fs", {})


def test_a_trend_is_drawn(sheets: Mapping[str, MeasuredGuide], tmp_path: Path) -> None:
    found = trend.trends_of_guides(
        [sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"]], "boot.time", "am62xx_sk-fs", {}
    )
    write(tmp_path / "boot.svg", figures.draw_trends(found), "--svg")
    drawn = (tmp_path / "boot.svg").read_text()
    assert "<svg" in drawn
    with pytest.raises(ConfigurationError, match=r"another path for --svg"):
        write(tmp_path / "none" / "boot.svg", drawn, "--svg")


def many(count: int, values: Sequence[float]) -> list[Trend]:
    """So many series of one metric, each with its own parameters."""
    points = [TrendPoint(f"1{n}.00", value) for n, value in enumerate(values)]
    return [Trend("boot.time", {"medium": f"m{n}"}, "a1-fs", "s", "lower", tuple(points)) for n in range(count)]


def test_a_change_of_two_percent_is_drawn_as_one() -> None:
    drawn = figures.draw_trends(many(1, [16.0, 16.32]))
    ((first, last),) = re.findall(r'points="[\d.]+,([\d.]+) [\d.]+,([\d.]+) "', drawn)
    rise = float(first) - float(last)
    *_, height = map(float, re.findall(r'viewBox="([\d. ]+)"', drawn)[0].split())
    assert height / 100 < rise < height / 5


@pytest.mark.parametrize("count", [2, 5, 6, 7])
def test_no_legend_covers_what_is_drawn(count: int) -> None:
    drawn = figures.draw_trends(many(count, [1.0, 2.0]))
    assert all(f"medium=m{n}<" in drawn for n in range(count))
    if count <= 5:
        labels = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>medium=m', drawn)]
        ticks = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>1[01]\.00<', drawn)]
        assert min(labels) > max(ticks)
    else:
        assert "legend" not in drawn


@pytest.mark.parametrize("count", [1, 7])
def test_a_drawing_is_well_formed_whatever_the_names_and_the_numbers_are(count: int) -> None:
    name = "<script>&\"'\u202e\x1b" * 20
    values = [0.0, 0.0, -3.0, 1e9] * 15
    points = tuple(TrendPoint(f"{n}.00", value, value - 1, value, name) for n, value in enumerate(values, 1))
    root = ET.fromstring(
        figures.draw_trends([Trend(name, {name: str(n)}, name, name, "lower", points) for n in range(count)])
    )
    assert [element for element in root.iter() if element.tag.endswith("script")] == []
    named = [element.text for element in root.iter() if re.fullmatch(r"\d+\.00", element.text or "")]
    assert 1 < len(named) / count <= 60
    assert "nan" not in figures.draw_trends(many(count, [0.0, 0.0]))


def number(release: str, value: float, **known: object) -> PublishedPoint:
    return PublishedPoint("a1-fs", "a1", {"medium": "sd"}, TrendPoint(release, value), **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "series"),
    [
        ([number("10.00", 1.0), number("10.00-rt", 2.0), number("11.00", 3.0)],
         [("standard kernel", "10.00 11.00"), ("real-time kernel", "10.00-rt")]),
        ([number("10.00", 1.0, definition="counts frames"), number("10.01", 2.0),
          number("11.00", 3.0, definition="counts payload"), number("11.01", 3.0, definition="counts frames")],
         [("counts frames", "10.00 10.01 11.01"), ("counts payload", "11.00")]),
        ([number("10.00", 1.0, conditions=frozenset({"card A", "async"})), number("10.01", 2.0),
          number("11.00", 3.0, conditions=frozenset({"card B", "async"}))],
         [("card A", "10.00 10.01"), ("card B", "11.00")]),
        ([number("10.00", 1.0, conditions=frozenset({"card A"})), number("11.00", 3.0, conditions=frozenset({"card A", "async"}))],
         [("", "10.00 11.00")]),
    ],
)  # fmt: skip
def test_one_series_has_one_definition(found: list[PublishedPoint], series: list[tuple[str, str]]) -> None:
    split = trend.build_series(found, "boot.time")
    assert [(one.definition, " ".join(p.release for p in one.points)) for one in split] == series


def test_products_are_never_one_series() -> None:
    found = [number("10.00", 1.0), PublishedPoint("a1-fs", "b2", {"medium": "sd"}, TrendPoint("11.00", 2.0))]
    assert [(one.product, len(one.points)) for one in trend.build_series(found, "boot.time")] == [("a1", 1), ("b2", 1)]


def test_a_product_stands_for_each_of_its_boards(sheets: Mapping[str, MeasuredGuide]) -> None:
    two = [sheets["am62x-11.01.rst"], sheets["am62ax-09.02.rst"]]
    found = trend.trends_of_guides(two, "whetstone.rate", "AM62x", {})
    assert [(one.board, one.product) for one in found] == [
        ("am62xx_lp_sk-fs", "am62"), ("am62xx_sk-fs", "am62"), ("am62xxsip_sk-fs", "am62")
    ]  # fmt: skip


def test_cards_of_two_releases_are_two_series(sheets: Mapping[str, MeasuredGuide]) -> None:
    two = [sheets["am62x-09.02.rst"], sheets["am62x-11.01.rst"]]
    wanted = {"medium": "sd", "buffer": "1m", "direction": "write"}
    found = trend.trends_of_guides(two, "storage.fio.throughput", "am62xx_lp_sk-fs", wanted)
    assert {one.definition for one in found} == {
        "SanDisk 8GB MicroSDHC Class 10 Memory Card",
        "SanDisk Max Endurance SD card (SDSQQVR-032G-GN6IA)",
    }
    assert {len(one.points) for one in found} == {1}


@pytest.mark.parametrize(
    ("values", "bars"),
    [([1.0, 2.0], "▁█"), ([100.0, 102.0], "▄▅"), ([-5.0, 5.0], "▁█"), ([5.0, 5.0], "▄▄"), ([], ""), ([3.0], "▄")],
)
def test_bars(values: list[float], bars: str) -> None:
    assert "".join(terminal.draw_bars(values)) == bars
