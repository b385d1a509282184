"""A lab's own metrics and limits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import ConfigurationError
from lab.metrics import Sample
from lab.metrics.lab_metrics import Declarations, load
from lab.metrics.limits import Limit, LimitOutcome, check

FRAME = {"unit": "s", "better": "lower", "resolution": 0.001}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("seed", range(20))
def test_a_number_fails_beyond_its_limits_and_is_marginal_within_the_guard_band_or_its_uncertainty(seed: int) -> None:
    dice = random.Random(seed)
    low = dice.uniform(-10, 10)
    high, guard = low + dice.uniform(5, 10), dice.uniform(0, 1)
    uncertainty = dice.uniform(0, 2)
    band = max(guard, uncertainty)
    limit = Limit(min=low, max=high, guard=guard)
    for edge, outwards in ((low, -1), (high, 1)):
        assert limit.outcome(edge + outwards * 1e-6, uncertainty) is LimitOutcome.FAIL
        assert limit.outcome(edge, uncertainty) is (LimitOutcome.MARGINAL if band else LimitOutcome.PASS)
        assert limit.outcome(edge - outwards * (band - 1e-6), uncertainty) is LimitOutcome.MARGINAL
        assert limit.outcome(edge - outwards * (band + 1e-6), uncertainty) is LimitOutcome.PASS


@pytest.mark.parametrize("expected", [2.0, -2.0])
def test_a_relative_limit_is_a_share_of_the_expected_value(expected: float) -> None:
    limit = Limit(expected=expected, percent=10)
    outcomes = {factor: limit.outcome(expected * factor, 0.0) for factor in (0.89, 0.91, 1.0, 1.09, 1.11)}
    assert [outcome is LimitOutcome.PASS for outcome in outcomes.values()] == [False, True, True, True, False]


def test_the_mean_each_sample_and_the_spread_have_limits_of_their_own() -> None:
    samples = [Sample(value, 0.01, cycle) for cycle, value in enumerate((1.0, 1.1, 1.9), start=1)]
    limits = [Limit(max=1.95), Limit(of="sample", max=1.8), Limit(of="sample", min=0.5), Limit(of="spread", max=0.1)]
    found = check(limits, samples)
    assert [(each.limit.of, each.outcome) for each in found] == [
        ("mean", LimitOutcome.MARGINAL),  # 1.33 ± 1.2 of three
        ("sample", LimitOutcome.FAIL),
        ("sample", LimitOutcome.PASS),
        ("spread", LimitOutcome.FAIL),
    ]
    assert [round(each.value, 3) for each in found] == [1.333, 1.9, 1.0, 0.493]
    (of_one,) = check(limits[3:], samples[:1])
    assert of_one.outcome is LimitOutcome.MARGINAL, "the spread of one sample is not known"


def test_a_limit_survives_the_store() -> None:
    limit = Limit(of="sample", expected=3.0, percent=5.0, guard=0.01)
    assert Limit.of_document(limit.document()) == limit
    assert Limit.of_document({"of": "sample", "median": 3}) is None


def test_the_file_declares_metrics_and_gives_limits_to_shipped_ones(tmp_path: Path) -> None:
    found = load(
        written(
            tmp_path,
            '[[metric]]\nname = "camera.first_frame"\nunit = "s"\nbetter = "lower"\nresolution = 0.001\nversion = 2\n'
            '[[metric.limit]]\nmax = 1\n[[metric]]\nname = "boot.time"\n[[metric.limit]]\nof = "spread"\nmax = 0.5\n',
        )
    )
    assert found.metric("camera.first_frame", **FRAME).version == 2
    assert found.metric("camera.first_frame").unit == "s"
    assert found.limits == {"camera.first_frame": (Limit(max=1.0),), "boot.time": (Limit(of="spread", max=0.5),)}


GOOD = '[[metric]]\nname = "camera.first_frame"\nunit = "s"\nbetter = "lower"\nresolution = 0.001\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[metric]", r"not TOML: .*line 1"),
        ("[[metrics]]\nname = 'a.b'", r"no key 'metrics' here; is 'metric' meant"),
        (GOOD.replace("unit", "units"), r"no key 'units' here; is 'unit' meant"),
        (GOOD.replace('unit = "s"\n', ""), r"'camera.first_frame' lacks unit; add it"),
        (GOOD.replace('"lower"', '"less"'), r"better"),
        (GOOD.replace("0.001", "-1"), r"the resolution is no number from 0 on"),
        (GOOD.replace("0.001", "nan"), r"the resolution is no number from 0 on"),
        (GOOD.replace("camera.first_frame", "First Frame"), r"a metric's name is lower-case words"),
        (GOOD + GOOD, r"'camera.first_frame' stands twice"),
        (GOOD.replace("camera.first_frame", "boot.time"), r"is boardlab's own .*only limits"),
        (GOOD + "[[metric.limit]]\n", r"give min, max or both"),
        (GOOD + "[[metric.limit]]\nmax = 1\nexpected = 2\npercent = 1\n", r"give min, max or both"),
        (GOOD + "[[metric.limit]]\nexpected = 2\n", r"expected and percent belong together"),
        (GOOD + "[[metric.limit]]\nmin = 1\nmax = 2\nguard = 0.6\n", r"nothing can pass between 1 and 2"),
        (GOOD + "[[metric.limit]]\nmax = inf\n", r"finite numbers"),
        (GOOD + "[[metric.limit]]\nmax = 1\nof = 'median'\n", r"of"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigurationError, match=told) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: (GOOD + text).encode()))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    try:
        load(path)
    except ConfigurationError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is good


def test_the_first_call_declares_and_a_later_one_may_not_contradict_it() -> None:
    lab = Declarations()
    first = lab.metric("camera.first_frame", **FRAME)
    assert lab.metric("camera.first_frame") is first
    for key, other in (("unit", "ms"), ("better", "higher"), ("resolution", 0.1), ("definition", "x"), ("version", 2)):
        with pytest.raises(ConfigurationError, match=rf"first call.*{key} {other!r} here"):
            lab.metric("camera.first_frame", **{key: other})
    with pytest.raises(ConfigurationError, match="lacks unit, better"):
        lab.metric("camera.light", resolution=1.0)
    for name in ("boot.time", "Camera", "camera"):
        with pytest.raises(ConfigurationError, match="name"):
            lab.metric(name, **FRAME)
    for key, wrong in (("better", "more"), ("resolution", -1), ("unit", 3), ("version", 0)):
        with pytest.raises(ConfigurationError, match=key):
            lab.metric("camera.light", **{**FRAME, key: wrong})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (7, "a metric's name is lower-case words"),
        ("a." + "b" * 100, "at most 100 characters"),
        ("limit.outcome", "the exporter has a name of its own like this one, boardlab_limit_outcome"),
        ("camera.frame_samples", "the exporter has a name of its own like this one"),
        ("camera.frame.uncertainty", "the exporter has a name of its own like this one"),
        ("camera_first.frame", "camera_first.frame and camera.first_frame have one name in Prometheus"),
        ("boot_time.x", None),
        ("boot.power_on.to_prompt", "and boot.power_on_to_prompt have one name in Prometheus"),
        ("camera.samples", None),
    ],
)
def test_two_metrics_never_share_a_name_in_prometheus(name: Any, told: str | None) -> None:
    declarations = Declarations()
    declarations.metric("camera.first_frame", **FRAME)
    if told is None:
        assert declarations.metric(name, **FRAME).name == name
        return
    with pytest.raises(ConfigurationError, match=told):
        declarations.metric(name, **FRAME)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"unit": "s\n"}, "a unit is a symbol of at most 30 printable characters"),
        ({"unit": "x" * 31}, "a unit is a symbol"),
        ({"version": 2**31}, "version 2147483648 is none"),
        ({"resolution": 10**5000}, "resolution a int that cannot be shown is none"),
    ],
)
def test_a_wrong_word_of_the_first_call_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Declarations().metric("camera.first_frame", **{**FRAME, **given})
