"""Every fault of a simulated board ends as its documentation says: through strategy, watch, run and store.

Time is virtual, so that a hang of half a minute takes none. What is observed becomes docs/failures.md; when it changes,
BOARDLAB_WRITE_DOCS=1 writes the page anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simruns import Bench, bench, planned

from lab.benchmarks.suspend import suspend_trial
from lab.errors import ConfigurationError
from virtual.sim.faults.base import Fault
from virtual.sim.faults.catalogue import FAULTS
