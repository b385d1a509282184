"""`lab provision` killed (SIGKILL) at random places of what the console says, on a simulated board of a real bench: the next one does it.

BOARDLAB_KILLS says how often; one takes about half a minute.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator

import pytest
from support.measuring_lab import running_lab
from support.provisioned_lab import ProvisionedLab
from support.simprovision import NEW, OLD

pytestmark = pytest.mark.soak

MEDIA = ("ospi", "emmc")
LAST = 0.9  # of what the console says: behind it a process may be gone before the kill
KILLS = int(os.environ.get("BOARDLAB_KILLS", "50"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvisionedLab]:
    with running_lab(tmp_path_factory.mktemp("killed"), "sim", "--type", "am62xx_sk", "--time-scale", "0.2") as lab:
        yield ProvisionedLab(lab)


@pytest.fixture(scope="module")
def heard(made: ProvisionedLab) -> int:
    """How many bytes the console says in a provisioning that nobody kills; of all kinds that are killed here the fewest."""
    found = []
    for release, medium in itertools.product((OLD, NEW), MEDIA):
        before = made.heard
        made.provisioned(release, medium)
        found.append(made.heard - before)
    return min(found)


@pytest.mark.parametrize("number", range(KILLS))
def test_the_next_provisioning_does_what_a_killed_one_began(made: ProvisionedLab, heard: int, number: int) -> None:
    dice = random.Random(number)
    release, medium = dice.choice([OLD, NEW]), dice.choice(MEDIA)
    made.killed_at(release, medium, round(dice.uniform(0, LAST * heard)))
    made.provisioned(release, medium)
