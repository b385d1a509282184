"""`lab provision` killed (SIGKILL) at random moments, on a simulated board of a real bench: the next one does it.

BOARDLAB_KILLS says how often; one takes about half a minute.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from killedlab import KilledLab
from measuring_lab import running_lab
from simprovision import NEW, OLD

KILLS = int(os.environ.get("BOARDLAB_KILLS", "50"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledLab]:
    with running_lab(tmp_path_factory.mktemp("killed"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield KilledLab(lab)


@pytest.fixture(scope="module")
def whole_s(made: KilledLab) -> float:
    """How long a provisioning takes that nobody kills."""
    return made.provisioned(NEW, "ospi")


@pytest.mark.parametrize("number", range(KILLS))
def test_the_next_provisioning_does_what_a_killed_one_began(made: KilledLab, whole_s: float, number: int) -> None:
    dice = random.Random(number)
    release, medium = dice.choice([OLD, NEW]), dice.choice(["ospi", "emmc"])
    made.killed(release, medium, dice.uniform(0, whole_s))
    made.provisioned(release, medium)
