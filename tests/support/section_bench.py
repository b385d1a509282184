"""Sections on a simulated board in virtual time: strategy, sessions, a store, and a played tester."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

from lab.benchmarks.lab_site import LabSite
from lab.benchmarks.section import Section
from lab.pytest_plugin.labgrid_host import ConsoleStamps, LabgridHost
from lab.results import Store, open_store
from lab.run.board import Status
from lab.run.progress import Progress
from lab.run.sections import KIND, SectionRun
from lab.run.session import BoardSession, CommandResult
from lab.virtual.sim.network import FolderTftp
from lab.virtual.sim.tester import Tester
from lab.virtual.sim.timing import dice
from support.simlab import SimLab
from support.simtarget import SimClock, strategy_on
from support.strategies import BoardStrategy

SCRATCH = {
    "emmc": "/dev/mmcblk0p3",
    "sd": "/dev/mmcblk1p3",
    "nand": "/dev/mtd9",
    "ospi": "0x1000000",
    "emmc_blocks": "0x0",
    "sd_fat": "1:1",
}
UBOOT = {"emmc": "mmc 0", "sd": "mmc 1", "ospi": "sf"}
TFTP = "192.168.1.1:boardlab.bin"
TFTP_BYTES = 1 << 20


@define
class PlayedTester:
    """The tester of a simulated board, in this process."""

    tester: Tester

    def run(self, command: str, timeout_s: float) -> CommandResult:
        assert timeout_s > 0
        text, status = self.tester.run(command)
        return CommandResult(text.splitlines(), status)


@frozen
class SectionBench:
    lab: SimLab
    strategy: BoardStrategy
    store: Store
    run: SectionRun
    said: list[str]

    def session(self, section: Section) -> BoardSession:
        return self.run.session(section)


@contextmanager
def section_bench(
    tmp_path: Path, board_type: str = "am62xx_sk", *, seed: int = 1, retries: int = 0, interface: str = "eth0"
) -> Iterator[SectionBench]:
    lab = SimLab(board_type, seed=seed)
    media = lab.board.model.board.media
    scratch = SCRATCH if "emmc" in media else {**SCRATCH, "sd": "/dev/mmcblk0p3", "sd_fat": "0:1"}
    uboot = UBOOT if "emmc" in media else {"sd": "mmc 0"}
    served = tmp_path / "tftp"
    served.mkdir()
    (served / TFTP.partition(":")[2]).write_bytes(bytes(TFTP_BYTES))
    lab.board.network = FolderTftp(served)
    module = lab.board.model.board.benchmarks.crypto_module
    tester = PlayedTester(Tester(lab.board.model, dice(seed, "tester")))
    said: list[str] = []
    with open_store(f"sqlite:///{tmp_path / 'results.db'}") as store, strategy_on(lab) as strategy:
        clock = SimClock(lab)

        def session(section: Section) -> BoardSession:
            strategy.transition("linux" if section.where == "linux" else "bootloader")
            driver = strategy.shell if section.where == "linux" else strategy.uboot

            def lost() -> None:
                strategy.status = Status.unknown

            host = LabgridHost(driver, strategy.board, is_shell=section.where == "linux", lost_hook=lost)
            site = LabSite(interface=interface, scratch=scratch, crypto_module=module, uboot=uboot, tftp=TFTP)
            stamps = ConsoleStamps(strategy.console, strategy.timing)
            return BoardSession(strategy.type, site, clock, host, tester, stamps)

        begun = store.begin_run(
            KIND, board_type, "sim-1", lab.board.model.release_name, plan={}, provenance={"virtual": True}
        )
        progress = Progress(said.append, clock, 0)
        run = SectionRun(store, begun, strategy, progress, clock, strategy.sleep, retries, session=session)
        yield SectionBench(lab, strategy, store, run, said)
