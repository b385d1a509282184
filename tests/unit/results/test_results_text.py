"""How numbers and console logs are written for a person."""

from __future__ import annotations

import unicodedata
from decimal import Decimal

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from support.facts import missing_facts

from lab.metrics import Metric, Summary
from lab.metrics.catalogue import BOOT_TIME
from lab.results import Moment
from lab.results.formatting import (
    average_cell,
    decimals,
    duration,
    format_fixed,
    label,
    lines,
    number,
    readable,
    with_uncertainty,
)
from lab.terminal import plain_bytes, table

SUMMARY = Summary(n=20, mean=16.2449, median=16.2, min=15.96, max=16.4163, p95=16.4, std=0.1, uncertainty=0.05)


ENERGY = Metric(name="lpm.x.energy", unit="J", better="lower", definition="of a test", resolution=1e-6, source="")


def test_a_cell_has_the_performance_guides_form_and_the_digits_of_its_uncertainty() -> None:
    assert not missing_facts(average_cell(SUMMARY, BOOT_TIME), "16.245", "min 15.960", "max 16.416")
    assert average_cell(evolve(SUMMARY, n=1), BOOT_TIME) == "16.245"
    assert not missing_facts(
        average_cell(evolve(SUMMARY, uncertainty=0.4), BOOT_TIME), "16.24", "min 15.96", "max 16.42"
    )
    small = Summary(n=9, mean=0.0383, median=0.038, min=0.0377, max=0.0391, p95=0.039, std=4e-4, uncertainty=3e-4)
    assert not missing_facts(average_cell(small, ENERGY), "0.03830", "min 0.03770", "max 0.03910")


def test_small_energies_are_read_in_millijoule_and_the_others_as_they_are() -> None:
    small = Summary(n=9, mean=0.0383, median=0.038, min=0.0377, max=0.0391, p95=0.039, std=4e-4, uncertainty=3e-4)
    metric, (scaled,) = readable(ENERGY, [small])
    assert (metric.unit, average_cell(scaled, metric)) == ("mJ", "38.30 (min 37.70, max 39.10)")
    assert number(scaled.median, scaled.uncertainty, metric) == "38.00"
    large = evolve(small, mean=2.0, max=2.1)
    assert readable(ENERGY, [small, large]) == (ENERGY, [small, large]), "one table has one unit"
    assert readable(BOOT_TIME, [small]) == (BOOT_TIME, [small])


@given(st.floats(-1e6, 1e6), st.integers(0, 9))
def test_nothing_that_rounds_to_zero_has_a_sign(value: float, places: int) -> None:
    shown = format_fixed(value, places)
    assert shown == f"{value:.{places}f}" or (float(shown) == 0 and not shown.startswith("-"))
    assert format_fixed(-0.001, 2) == "0.00"


@pytest.mark.parametrize(
    ("value", "uncertainty", "text"),
    [
        (16.24493, 0.0512, "16.245 ± 0.051 s"),
        (16.24493, 0.05, "16.245 ± 0.050 s"),
        (16.24493, 1.0, "16.2 ± 1.0 s"),
        (160.4, 23.0, "160 ± 23 s"),
        (16.24493, 0.00017, "16.2449 ± 0.0002 s"),  # the method resolves 0.1 ms
        (16.24493, 0.0, "16.2449 ± 0.0000 s"),
    ],
)
def test_a_value_is_as_long_as_its_uncertainty_allows(value: float, uncertainty: float, text: str) -> None:
    assert with_uncertainty(value, uncertainty, BOOT_TIME) == text
    assert text.startswith(number(value, uncertainty, BOOT_TIME) + " ")


@given(st.floats(1e-12, 1e6))
def test_the_uncertainty_itself_shows_two_digits_unless_it_is_below_the_last_decimal(uncertainty: float) -> None:
    places = decimals(uncertainty)
    assert 0 <= places <= 9
    if 1e-8 <= uncertainty < 1:
        shown = Decimal(f"{uncertainty:.{places}f}")
        assert 2 <= len(shown.as_tuple().digits) <= 3  # three where it was rounded up to the next decade


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (312, "5 min 12 s"), (11227, "3 h 07 min")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_parameters_are_labelled_by_their_values_alone_where_that_is_enough() -> None:
    assert label({"medium": "sd"}) == "sd"
    assert label({"stage": "Kernel", "medium": "sd"}) == "medium=sd, stage=Kernel"


def test_a_table_lines_up_its_columns() -> None:
    assert table(["", "n"], [["sd", "5"], ["emmc", "20"]], "<>") == ["       n", "sd     5", "emmc  20"]


@given(st.binary())
def test_console_bytes_become_text_that_cannot_act_on_a_terminal(data: bytes) -> None:
    shown = plain_bytes(data)
    assert {unicodedata.category(c) for c in shown if c != "\t"}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


def test_what_is_no_text_is_written_out() -> None:
    assert plain_bytes(b"\x1b[2J\x07 ok\t\xff\x7f") == "^[[2J^G ok\t\\xff\\x7f"
    assert plain_bytes("µ \u202e \x9b".encode()) == "µ \\u202e \\x9b"


@given(st.lists(st.sampled_from([b"a", b"login: ", b"\r\n", b"\n", b"\x00"])).map(b"".join), st.data())
def test_the_lines_of_a_window_begin_where_they_say_and_cover_it(data: bytes, draws: st.DataObject) -> None:
    start = draws.draw(st.integers(0, len(data)))
    end = draws.draw(st.integers(start, len(data)))
    found = lines(data, start, end)
    for line in found:
        raw = data[line.start :].split(b"\n", 1)[0]
        assert line.text == plain_bytes(raw.rstrip(b"\r"))
        assert line.start == 0 or data[line.start - 1 : line.start] == b"\n"
    if end > start:
        assert found[0].start <= start
        last = data[found[-1].start :]
        assert found[-1].start < end <= found[-1].start + (last.find(b"\n") + 1 or len(last))


def test_a_moment_stands_at_the_line_that_its_marker_ends_in() -> None:
    log = b"Starting kernel ...\r\n\r\nam62xx-evm login: "
    start = Moment("starting_kernel", 0, 1, len("Starting kernel ..."))
    login = Moment("login", 5, 1, len(log))
    found = lines(log, 0, len(log), (start, login))
    assert [(line.start, [m.name for m in line.moments]) for line in found] == [
        (0, ["starting_kernel"]),
        (21, []),
        (23, ["login"]),
    ]
