"""The longest files run first; programs start lean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.leansessions import LEAN, lean_pdudaemon

from lab.virtual import pdudaemon

LONGEST = (  # those that wait for boards, and those that compute, in turns
    "test_farm_buildbot.py",
    "test_sim_faults.py",
    "test_lab_run.py",
    "test_postgresql.py",
    "test_provisioning.py",
    "test_report_in_browser.py",
    "test_sim_bench.py",
    "test_full_guide.py",
    "test_exported_console.py",
    "test_low_power_bench.py",
    "test_web_operator.py",
    "test_web_browser.py",
    "test_rails_qemu.py",
    "test_verdict_mail.py",
    "test_judged_runs.py",
    "test_farm_dashboards_drawn.py",
    "test_farm_up.py",
    "test_wheel.py",
    "test_farm_alerting.py",
    "test_farm_dashboards_live.py",
    "test_virtual_board.py",
    "test_main_job.py",
    "test_provision_place.py",
    "test_strategy_misbehaviour.py",
    "test_health.py",
)


@pytest.fixture(scope="session", autouse=True)
def lean_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sessions of pytest, and pdudaemon, start without what they do not use."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTEST_ADDOPTS", LEAN)
        environment.setenv(pdudaemon.VARIABLE, str(lean_pdudaemon(tmp_path_factory.mktemp("lean"))))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort them; pytest-xdist hands files out in this order (--no-loadscope-reorder)."""
    places = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))
