"""`lab provision` killed (SIGKILL) at random moments, on a simulated board of a real bench: the next one does it.

BOARDLAB_KILLS says how often; one takes about half a minute.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from measuring_lab import running_lab
from provisioned_lab import ProvisionedLab
from simprovision import NEW, OLD

MEDIA = ("ospi", "emmc")
LAST = 2  # lines of the end: a process that said them may be gone before the kill
KILLS = int(os.environ.get("BOARDLAB_KILLS", "50"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvisionedLab]:
    with running_lab(tmp_path_factory.mktemp("killed"), "sim", "--type", "am62xx_sk", "--time-scale", "0.05") as lab:
        yield ProvisionedLab(lab)


@pytest.fixture(scope="module")
def lines(made: ProvisionedLab) -> dict[str, int]:
    """Medium -> how many lines a provisioning says that nobody kills."""
    return {medium: len(made.provisioned(NEW, medium)) for medium in MEDIA}


@pytest.mark.parametrize("number", range(KILLS))
def test_the_next_provisioning_does_what_a_killed_one_began(
    made: ProvisionedLab, lines: dict[str, int], number: int
) -> None:
    dice = random.Random(number)
    release, medium = dice.choice([OLD, NEW]), dice.choice(MEDIA)
    made.killed(release, medium, dice.randrange(lines[medium] - LAST))
    made.provisioned(release, medium)
