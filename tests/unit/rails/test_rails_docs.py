"""The page on power names what exists, and its examples work."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest
import yaml
from labgrid import Target
from labgrid.factory import target_factory
from support.railbench import RailBench

from lab import boards, drivers
from lab.metrics import Flag
from lab.rails import AdcRange, Trace, from_env
from lab.rails.config import BACKENDS, RailConfig
from lab.rails.model import UncertaintyBudget
from lab.rails.phase import cut

PAGE = (Path(__file__).parents[3] / "docs" / "rails.md").read_text(encoding="utf-8")


def test_the_page_explains_every_key_of_a_rail_every_part_and_every_flag() -> None:
    keys = {field.name for field in attrs.fields(RailConfig)} - {"name"}
    assert {key for key in keys if f"| `{key}` |" not in PAGE} == set()
    assert {field.name for field in attrs.fields(UncertaintyBudget) if f"| `{field.name}` |" not in PAGE} == set()
    flags = {flag for flag in Flag if flag.startswith(("power_", "sensor_"))}
    assert {flag for flag in flags if f"| `{flag}` |" not in PAGE} == set()
    assert {backend for backend in BACKENDS if f"`{backend}`" not in PAGE} == set()


def test_the_environment_on_the_page_is_understood() -> None:
    example, automation = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert drivers.__name__ == "lab.drivers"  # its import registers them
    target = Target("main")
    for name, arguments in (pair for entry in yaml.safe_load(automation)["resources"] for pair in entry.items()):
        target_factory.make_resource(target, name, None, arguments)
    for name, arguments in (pair for entry in yaml.safe_load(automation)["drivers"] for pair in entry.items()):
        target_factory.make_driver(target, name, None, arguments)
    assert target.get_resource("RailSensors").config("evm-1", "am654x-evm").dut == "am654x-evm"
    sensors = yaml.safe_load(example)["resources"][0]["RailSensors"]
    config = from_env("board-1", board_type=boards.load("am62xx_lp_sk"), **sensors)
    assert config.rails[0].offset_uv == -3.25


def test_numpy_alone_reads_a_trace_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, reading = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    bench = RailBench()
    ((_, start_ns, end_ns),) = bench.record(tmp_path / "power.trace", AdcRange.ACTIVE, ("idle", 0.3))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(reading, names)  # noqa: S102 - the page is ours
    expected = cut(Trace.open(tmp_path / "power.trace"), start_ns, end_ns).rail("vdd_core").mean_w
    assert names["watts"].mean() == pytest.approx(expected, rel=0.01)
