"""U-Boot's own tests, and labgrid's own drivers and strategy, on the QEMU boards with SPL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import qemu_boards
from support.measuring_lab import Lab
from support.uboot_suite import DEADLINE_S, NAMES, lab_with_hooks, powered, run_suite

from lab import boards

pytestmark = pytest.mark.soak

# Of all that run there: these have to pass, through the board's network and on its media.
PASS = {
    "bpim2u": {"test_version", "test_net_dhcp", "test_net_tftpboot", "test_mmc_wr[sd]", "test_mmc_wr[emmc-slot]"},
    "sifive_u": {"test_version", "test_net_dhcp", "test_net_tftpboot", "test_sf_update[env__sf_config0]"},
}
FEWEST = {"bpim2u": 100, "sifive_u": 35}
STOCK = """
targets:
  main:
    resources:
      PDUDaemonPort: {{host: '{pdudaemon}', pdu: bench, index: 1}}
      RawSerialPort: {{port: '{uart}', speed: 115200}}
    drivers:
      - PDUDaemonDriver: {{}}
      - SerialDriver: {{}}
      - UBootDriver: {{prompt: '{uboot}', autoboot: '{autoboot}', boot_timeout: {boot_s}, login_timeout: {boot_s}}}
      - ShellDriver: {{prompt: '{shell}', login_prompt: '{login}', username: root, login_timeout: {boot_s}}}
      - UBootStrategy: {{}}
"""
STOCK_TESTS = """
def test_uboot(target, strategy):
    strategy.transition("uboot")
    assert "U-Boot" in target.get_driver("UBootDriver").run_check("version")[0]

def test_shell(target, strategy):
    strategy.transition("shell")
    assert target.get_driver("ShellDriver").run_check("uname -s") == ["Linux"]
    assert (type(strategy).__name__, strategy.status.name) == ("UBootStrategy", "shell")
"""


@pytest.fixture(params=qemu_boards.TYPES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with lab_with_hooks(tmp_path, NAMES[request.param], *qemu_boards.up_words(request.param)) as lab:
        yield lab


def test_u_boots_own_tests_pass(lab: Lab, tmp_path: Path) -> None:
    passed = {name for _, name in run_suite(lab, tmp_path)}
    board_type = lab.bench.board.type
    assert PASS[board_type] <= passed
    assert len(passed) >= FEWEST[board_type]
    assert "on" in powered(lab)


def test_labgrids_own_drivers_and_strategy_boot_it(lab: Lab, tmp_path: Path) -> None:
    board = boards.load(lab.bench.board.type)
    prompts = {name: getattr(board.prompts, name) for name in ("uboot", "autoboot", "shell", "login")}
    state = lab.bench.state
    text = STOCK.format(
        pdudaemon=state.pdudaemon,
        uart=lab.bench.board.uarts["uart0"],
        boot_s=round(board.timeouts.boot_s),
        **prompts,
    )
    (tmp_path / "stock.yaml").write_text(text)
    (tmp_path / "test_stock.py").write_text(STOCK_TESTS)
    lab.passes(tmp_path, "--lg-env", "stock.yaml", "test_stock.py", timeout_s=DEADLINE_S)
