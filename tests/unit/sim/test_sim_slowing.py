"""A board that became slower: the stage that was named takes longer, and nothing else."""

from __future__ import annotations

import pytest
from support.simlab import S, SimLab
from support.simruns import planned

from lab.errors import ConfigurationError
from lab.virtual.truth_log import TrueBoot, Truth, true_boots

LOGIN = "am62xx-evm login: "


def booted(**parameters: object) -> TrueBoot:
    """The true times of a boot, the same but for the fault with these parameters; none: no fault."""
    lab = SimLab("am62xx_sk")
    plan = planned("slow_stage", cycles="1", **parameters)
    lab.board.troubles_for = lambda cycle: [plan.fault(cycle)] if parameters and plan.strikes(cycle) else []
    lab.on("sd")
    lab.run_until(LOGIN)
    lab.run_for(1 * S)
    sent = Truth(115200, lab.ports[lab.console].sent, 0, [], lab.noted)
    (boot,) = true_boots(sent, "am62xx-evm")
    return boot


def test_three_per_cent_more_from_the_kernels_start_to_the_login() -> None:
    whole, slower = booted(), booted(percent=3)
    assert slower.boot_s / whole.boot_s == pytest.approx(1.03, abs=1e-4)
    before, slower_before = whole.from_power_on_s - whole.boot_s, slower.from_power_on_s - slower.boot_s
    assert slower_before == pytest.approx(before, rel=1e-6)


def test_another_stage() -> None:
    whole, slower = booted(), booted(stage="spl", percent=50)
    assert slower.boot_s == pytest.approx(whole.boot_s, rel=1e-6)
    assert slower.from_power_on_s > whole.from_power_on_s


@pytest.mark.parametrize(("given", "says"), [({"stage": "lunch"}, "no stage 'lunch'"), ({"percent": -100}, "percent")])
def test_what_cannot_be_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        planned("slow_stage", cycles="1", **given)
