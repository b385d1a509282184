"""Sessions of pytest that tests start on boards: without a plugin that is a fifth of what their start costs, and that none uses."""

from __future__ import annotations

from typing import Final

LEAN: Final = "-p no:schemathesis -p no:hypothesispytest"  # for PYTEST_ADDOPTS
