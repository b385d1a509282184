"""The sampler's process says why it could not begin, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.railsserved import hwmon

from lab.errors import ConfigurationError
from lab.rails import sampling


def test_a_wrong_wiring_is_said_in_one_line(tmp_path: Path) -> None:
    wrong = evolve(hwmon(tmp_path), port=str(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match="nothing") as raised, sampling(wrong, tmp_path / "power.trace"):
        pass
    assert "\n" not in str(raised.value)
    assert "Warning" not in str(raised.value)
