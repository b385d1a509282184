"""What all tests of boardlab's own code share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support.warm_start import ADDRESS, WarmPopen, WarmStarts

# A shell starts background jobs with SIGINT ignored, and programs inherit that. Tests that press Ctrl-C must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests read whole rows of tables; those of narrow screens say how narrow.
os.environ["COLUMNS"] = "200"

# Hypothesis without its limits of time: they measure the machine, not the code.
for profile, examples in (("ci", 25), ("soak", 300)):
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("soak" if os.environ.get("BOARDLAB_SOAK") else "ci")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process more than there are cores: tests wait for disks and for other programs for a third of their time."""
    return (os.cpu_count() or 1) + 1


WARM_STARTS = pytest.StashKey[WarmStarts]()


def pytest_configure(config: pytest.Config) -> None:
    """Hide the user's own results; start our programs warm beside workers."""
    if hasattr(config, "workerinput"):
        if ADDRESS in os.environ:
            WarmPopen.install()
        return
    home = tempfile.TemporaryDirectory()
    config.add_cleanup(home.cleanup)
    os.environ["XDG_DATA_HOME"] = home.name
    if getattr(config.option, "numprocesses", None):
        config.stash[WARM_STARTS] = WarmStarts()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the fork server of this session."""
    if WARM_STARTS in config.stash:
        config.stash[WARM_STARTS].close()
