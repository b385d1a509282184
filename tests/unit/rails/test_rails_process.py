"""The sampler's process says why it could not begin, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.prometheus_server import until
from support.railsserved import hwmon

from lab.errors import ConfigurationError
from lab.host.runtime import prepare
from lab.host.status_files import RAILS, RailStatus, read_all
from lab.rails import sampling
from lab.rails.trace import Trace


def test_a_wrong_wiring_is_said_in_one_line(tmp_path: Path) -> None:
    wrong = evolve(hwmon(tmp_path), port=str(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match="nothing") as raised, sampling(wrong, tmp_path / "power.trace"):
        pass
    assert "\n" not in str(raised.value)
    assert "Warning" not in str(raised.value)


@pytest.mark.parametrize("reported", [True, False])
def test_samples_without_an_energy_are_not_in_the_hosts_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: bool
) -> None:
    monkeypatch.setenv("BOARDLAB_RUNTIME", str(prepare(tmp_path / "runtime")))
    config = evolve(hwmon(tmp_path), reported=reported)
    with sampling(config, tmp_path / "power.trace") as sampler:
        until(lambda: len(Trace.open(sampler.path).records) > 1, "it samples")
        until(lambda: not reported or read_all(tmp_path / "runtime" / RAILS, RailStatus), "its status is there")
        boards = {status.board for status in read_all(tmp_path / "runtime" / RAILS, RailStatus)}
    assert boards == ({config.board} if reported else set())
