"""Packages of others: what they add, and how a wrong one is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.facts import missing_facts

from lab import extensions
from lab.benchmarks import sections
from lab.errors import ConfigurationError
from lab.guide.check.findings import load_rules
from lab.rails import sensors
from lab.rails.config import BACKENDS, INA, RailConfig, RailsConfig, backends
from lab.rails.sensors import open_sensor

RAIL = (RailConfig("vdd", 5.0),)
MODULE = """
from attrs import evolve
from lab.benchmarks.can import SECTION
from lab.guide.check.rules.power import rail_total
from lab.metrics import Metric

OWN = evolve(SECTION, name="own", metrics=("own.rate",), declares=(Metric("own.rate", "1/s", "higher", "", 1.0, "own"),))
SAME = SECTION
UNDECLARED = evolve(SECTION, name="other", metrics=("own.rate",))
TAKEN = evolve(SECTION, name="other", declares=(Metric("boot.time", "s", "lower", "", 1.0, "own"),))
RULE = evolve(rail_total, id="own-rule", address="https://example.org")

def sensor(config):
    return 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path for packages of somebody else."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "somebody.py").write_text(MODULE)
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for cached in (extensions.load, sections.every, load_rules):
        cached.cache_clear()


def declare(folder: Path, group: str, *points: str, name: str = "somebody") -> None:
    """Install a package with these entry points."""
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]))


def test_sections_and_rules_of_a_package_stand_beside_ours(package: Path) -> None:
    declare(package, extensions.SECTIONS, "own = somebody:OWN")
    declare(package, extensions.GUIDE_RULES, "own = somebody:RULE", name="another")
    assert [section.name for section in sections.every()] == [*(section.name for section in sections.ALL), "own"]
    assert sections.every()[-1].metric("own.rate").unit == "1/s"
    assert "own-rule" in [rule.id for rule in load_rules()]


@pytest.mark.parametrize(
    ("group", "point", "told"),
    [
        (
            extensions.SECTIONS,
            "own = nobody:OWN",
            r"own = nobody:OWN of package somebody 1 cannot be imported: ModuleNotFound",
        ),
        (
            extensions.SECTIONS,
            "own = somebody:sensor",
            r"own of package somebody 1 is function, and has to be a Section",
        ),
        (extensions.SECTIONS, "own = somebody:SAME", r"there is a section 'can' already"),
        (extensions.SECTIONS, "own = somebody:UNDECLARED", r"'other' measures own.rate, which nothing declares"),
        (extensions.SECTIONS, "own = somebody:TAKEN", r"'other' declares boot.time, which boardlab has"),
        (extensions.GUIDE_RULES, "own = somebody:OWN", r"has to be a Rule with an id of its own"),
    ],
)
def test_a_wrong_package_is_told_with_its_name_and_version(package: Path, group: str, point: str, told: str) -> None:
    declare(package, group, point)
    with pytest.raises(ConfigurationError, match=told):
        sections.every() if group == extensions.SECTIONS else load_rules()


def test_two_packages_with_the_same_name_are_refused(package: Path) -> None:
    for name in ("somebody", "another"):
        declare(package, extensions.SECTIONS, "own = somebody:OWN", name=name)
    with pytest.raises(ConfigurationError, match="'own'; uninstall") as caught:
        sections.every()
    assert all(f"package {name} 1" in str(caught.value) for name in ("somebody", "another"))


def test_a_rail_backend_is_ours_or_a_packages_and_no_other_name_is_read_as_one(package: Path) -> None:
    with pytest.raises(ValueError, match="'hwmom'") as caught:
        RailsConfig("b", "hwmom", ".", RAIL)
    assert not missing_facts(str(caught.value), "hwmon", "package", "boardlab.rails")
    declare(package, extensions.RAILS, "bench = somebody:sensor")
    assert backends() == (*BACKENDS, "bench")
    with pytest.raises(ConfigurationError, match=r"somebody 1 is int"):
        open_sensor(RailsConfig("b", "bench", ".", RAIL))


def test_every_backend_of_ours_has_a_module_and_one_without_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(BACKENDS) == INA | set(sensors._MODULES)
    monkeypatch.setattr(sensors, "_MODULES", {})
    with pytest.raises(ConfigurationError, match=r"serves.*'hwmon'"):
        open_sensor(RailsConfig("b", "hwmon", ".", RAIL))
