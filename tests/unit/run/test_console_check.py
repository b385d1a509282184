"""What `lab console check` makes of logs: the flow, the evidence, the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import bare_logs
from support.facts import missing_facts

from lab import boards
from lab.boards import NORMAL, QUIET
from lab.run.check import output
from lab.run.check.bare_log import read
from lab.run.check.findings import Findings, examine
from lab.run.check.verdict import Fit, LogVerdict, judge

Check = Callable[..., tuple[Findings, LogVerdict]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Checks lines as a log."""

    def checked(lines: list[str], board: str = "am62xx_sk", newline: str = "\r\n") -> tuple[Findings, LogVerdict]:
        path = tmp_path / "boot.log"
        path.write_bytes(newline.join(lines).encode("latin-1"))
        found = examine(read(path, boards.load(board)), boards.load(board))
        return found, judge(found)

    return checked


def at(findings: Findings, name: str) -> tuple[int, ...]:
    """The lines of a moment."""
    return next(found.lines for found in findings.moments if found.pattern.name == name)


def with_line(lines: list[str], after: str, *more: str) -> list[str]:
    """The lines, and more behind the first that begins so."""
    number = next(number for number, line in enumerate(lines, start=1) if line.startswith(after))
    return [*lines[:number], *more, *lines[number:]]


def test_a_whole_boot_fits(check: Check) -> None:
    findings, verdict = check(bare_logs.k3())
    assert (verdict.fit, verdict.reasons) == (Fit.WHOLE, ())
    assert findings.flow == NORMAL
    assert findings.media == ("sd",)
    assert [witness.source for witness in findings.witnesses if witness.confirmed] == [
        "spl",
        "uboot",
        "kernel",
        "rootfs",
    ]
    assert at(findings, "spl") == (2, 11)
    assert findings.software["kernel"].startswith("Linux version 6.12.34-ti")
    assert findings.flags == ()


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\r", "\r\n\r\n"])
def test_the_end_of_a_logs_last_line_is_no_text_behind_the_prompt(check: Check, ending: str) -> None:
    lines = bare_logs.k3()
    findings, verdict = check([*lines[:-1], lines[-1] + ending])
    assert (verdict.fit, findings.flags) == (Fit.WHOLE, ())


@pytest.mark.parametrize(
    "mounted",
    [
        "EXT4-fs (mmcblk1p2): mounted filesystem 766e618e-b399 r/w with ordered data mode. Quota mode: none.",
        "EXT4-fs (mmcblk1p2): mounted filesystem with ordered data mode. Opts: (null)",  # 5.10
        "EXT4-fs (mmcblk1p2): mounted filesystem 766e618e-b399 ro with ordered data mode. Quota mode: none.",
    ],
)
def test_the_root_file_system_is_named_whatever_it_is_mounted_as(check: Check, mounted: str) -> None:
    findings, verdict = check(bare_logs.k3(root=[f"[    2.300000] {mounted}", bare_logs.ROOT[1]]))
    assert verdict.fit is Fit.WHOLE
    assert findings.witnesses[-1].source == "rootfs"
    assert (findings.witnesses[-1].medium, findings.witnesses[-1].confirmed) == ("sd", True)


def test_a_mixed_boot_is_named_and_does_not_fit(check: Check) -> None:
    findings, verdict = check(bare_logs.k3(device="MMC1"))
    assert verdict.fit is Fit.NOT
    assert findings.media == ("emmc", "sd")
    assert not missing_facts(verdict.reasons[0].why, "mixed boot", "spl names emmc", "uboot names sd")
    assert "U-Boot's environment" in verdict.reasons[0].todo


@pytest.mark.parametrize("probed_again", [True, False])
def test_qspi_with_linux_4_9_and_the_space_bar(check: Check, probed_again: bool) -> None:
    findings, verdict = check(bare_logs.am437x(probed_again=probed_again), "am43xx-gpevm")
    assert verdict.fit is Fit.WHOLE
    assert findings.media == ("qspi",)
    assert at(findings, "autoboot") == (8,)
    assert at(findings, "init") == ()


def test_a_word_that_the_type_does_not_know_says_which_table_to_change(check: Check) -> None:
    findings, verdict = check(bare_logs.am437x("XIP"), "am43xx-gpevm")
    assert verdict.fit is Fit.NOT
    assert "spl says 'XIP'" in verdict.reasons[0].why
    assert not missing_facts(verdict.reasons[0].todo, "`media`", "'spl'")
    assert findings.media == ("qspi",)


def test_a_quiet_kernel_fits_and_its_medium_is_left_to_a_run(check: Check) -> None:
    findings, verdict = check(bare_logs.k3(kernel=[], root=[], init=[]))
    assert verdict.fit is Fit.WHOLE
    assert findings.flow == QUIET
    assert "  flow: quiet" in list(output.lines(findings, verdict))
    assert not [line for line in output.lines(findings, verdict) if "not normal" in line]
    assert at(findings, "first_printk") == ()
    assert "medium_unverified" in findings.flags


@pytest.mark.parametrize("quiet", [False, True])
def test_falcon_is_a_flow(check: Check, quiet: bool) -> None:
    findings, verdict = check(bare_logs.falcon(quiet=quiet))
    assert verdict.fit is Fit.WHOLE
    assert findings.flow == ("falcon_quiet" if quiet else "falcon")
    assert not missing_facts(findings.flows[NORMAL].why_not, "uboot", "starting_kernel")
    assert "belongs to another flow" in findings.flows["sbl"].why_not


@pytest.mark.parametrize(
    "first",
    [
        "SYSFW Firmware Version 10.1.8--v10.01.08 (Fiery Fox)",
        "DMSC Firmware Version 9.1.8--v09.01.08 (Kool Koala)",
        "SYSFW Version 9.0.5--v09.00.05 (Kool Koala)",
        "Starting OSPI Bootloader ... ",
        "[BOOTLOADER PROFILE] SYSFW Load                       :      17592us",
        "[KPI] Boot Media       : eMMC",
    ],
)
def test_sbl_is_a_flow_whatever_its_first_words(check: Check, first: str) -> None:
    findings, verdict = check(bare_logs.sbl(first))
    assert verdict.fit is Fit.WHOLE
    assert findings.flow == "sbl"
    assert at(findings, "sbl")[0] == 1


def test_sbl_in_two_stages_is_no_reset(check: Check) -> None:
    first = "SYSFW Firmware Version 9.2.7--v09.02.07 (Kool Koala)"
    findings, verdict = check([first, "Starting MCU-r5f and 2nd stage bootloader", "", *bare_logs.sbl(first)])
    assert verdict.fit is Fit.WHOLE
    assert findings.flow == "sbl"


def test_the_reset_of_erratum_i2331_is_none(check: Check) -> None:
    cold = [bare_logs.SPL, "Resetting on cold boot to workaround ErrataID:i2331", "resetting ..."]
    findings, verdict = check([*cold, *bare_logs.k3()])
    assert verdict.fit is Fit.WHOLE
    assert len(at(findings, "spl")) == 3


def test_two_boots_in_a_log_are_named(check: Check) -> None:
    _, verdict = check([*bare_logs.k3(end=""), *bare_logs.k3()])
    assert verdict.fit is Fit.NOT
    assert not missing_facts(" ".join(reason.why for reason in verdict.reasons), "reset", "spl 4 ×")
    assert "cut one out" in " ".join(reason.todo for reason in verdict.reasons)


def test_a_rom_that_asks_over_the_uart_is_named(check: Check) -> None:
    identity = "02000000011a0000616d3634780000000000000048534653000002000000020002a6" + "00" * 60
    findings, verdict = check([identity + "CCCC"])
    assert verdict.fit is Fit.PART
    assert "without a medium" in verdict.reasons[0].why
    assert findings.flow == ""


def test_an_oops_of_the_kernel_is_the_boots_failure(check: Check) -> None:
    findings, verdict = check(
        with_line(bare_logs.k3(), "[    1.500000]", "[    1.600000] Internal error: : 1028 [#1] SMP ARM")
    )
    assert verdict.fit is Fit.PART
    assert "kernel_oops" in verdict.reasons[0].why
    assert [(known.means, known.text[:14]) for known in findings.failures] == [("kernel_oops", "[    1.600000]")]


def test_a_u_boot_abort_is_the_boots_failure(check: Check) -> None:
    lines = bare_logs.k3()
    cut = lines[: lines.index("SD/MMC found on device 1")]
    findings, verdict = check([*cut, '"Synchronous Abort" handler, esr 0x96000046, far 0x81000000', "resetting ..."])
    assert verdict.fit is Fit.PART
    assert "uboot_abort" in verdict.reasons[0].why
    assert findings.prompts == ()


@pytest.mark.parametrize("last", ["U-Boot 2025.01", "Starting kernel", "[    2.400000]"])
def test_a_log_that_ends_early_fits_in_part(check: Check, last: str) -> None:
    lines = bare_logs.k3()
    end = next(number for number, line in enumerate(lines, start=1) if line.startswith(last))
    findings, verdict = check([*lines[:end], ""])
    assert verdict.fit is Fit.PART
    assert not missing_facts(verdict.reasons[0].why, "not reach the prompt")
    assert findings.flow == NORMAL


def test_a_log_that_begins_late_fits_in_part(check: Check) -> None:
    lines = bare_logs.k3()
    _, verdict = check(lines[lines.index("Starting kernel ...") :])
    assert verdict.fit is Fit.PART
    assert not missing_facts(verdict.reasons[0].why, "begins late", "spl, uboot")


def test_another_boards_prompt_does_not_fit_and_names_the_table(check: Check) -> None:
    _, verdict = check(bare_logs.k3(end="beagleplay login: "))
    assert verdict.fit is Fit.NOT
    assert "'beagleplay login:'" in verdict.reasons[0].why
    assert "`[prompts]`" in verdict.reasons[0].todo


def test_a_required_moment_in_other_words_does_not_fit(check: Check) -> None:
    lines = ["U-Boot 25.01-vendor" if line.startswith("U-Boot 2025") else line for line in bare_logs.k3()]
    findings, verdict = check(lines)
    assert verdict.fit is Fit.NOT
    assert findings.flow == ""
    assert "normal: not found: uboot" in verdict.reasons[0].why
    assert "`moments`" in verdict.reasons[0].todo


def test_no_boot_at_all_does_not_fit(check: Check) -> None:
    _, verdict = check(["Chapter 1", "It was a dark and stormy night."])
    assert verdict.fit is Fit.NOT
    assert not missing_facts(verdict.reasons[0].why, "none", "moments")


def test_what_real_consoles_do_around_the_prompt_fits(check: Check) -> None:
    covered = check(bare_logs.k3(end=f"{bare_logs.LOGIN}[   43.658925] audit: type=1334 prog-id=6 op=LOAD"))
    again = check([*bare_logs.k3(), "", "Arago 2025.01 am62xx-evm ttyS2", "", bare_logs.LOGIN])
    typed = check([*bare_logs.k3(end=f"{bare_logs.LOGIN}root"), "root@am62xx-evm:~# reboot", bare_logs.SPL])
    stripped = check([line.rstrip() for line in (*bare_logs.k3(), "")], newline="\n")
    assert [verdict.fit for _, verdict in (covered, again, typed, stripped)] == [Fit.WHOLE] * 4
    assert "prompt_repeated" in again[0].flags
    assert "which has typed input" in typed[0].log.notes[0]
    assert "blank behind the prompt" in stripped[0].log.notes[0]


def test_a_program_that_prints_the_prompts_text_is_said_to_do_so(check: Check) -> None:
    more = [f"[   {10 + number}.000000] a driver says {number}" for number in range(40)]
    lines = with_line(bare_logs.k3(end=""), "[  OK  ]", "am62xx-evm login: ", *more, "and a program goes on")
    _, verdict = check(lines)
    assert verdict.fit is Fit.PART
    assert not missing_facts(verdict.reasons[0].why, "log continues")


@pytest.mark.parametrize(
    "prefix",
    [
        "[12.345678 0.000123] ",
        "[10:20:30.123] ",
        "[2025-06-26 10:20:30] ",
        "Jun 26 10:20:30 ",
        "2025-06-26T10:20:30Z ",
        "[10:20:30 AM] ",
        "[2025/06/26 10:20:30.123] ",
        "[Thu Jun 26 10:20:30.123 2025] ",
        "INFO: 10:20:30.123 ttyUSB0: ",
        "10:20:30:123 -> ",
        "10.20.30 | ",
        "1750926030.123 ",
        "[1750926030123] ",
        "[   12.345] ",
        "2025-06-26 10:20:30,123 DEBUG: ",
        "(2025-06-26 10:20:30.123456) ",
        "10:20:30.123\t",
    ],
)
def test_times_that_programs_put_before_lines_are_left_out(check: Check, prefix: str) -> None:
    findings, verdict = check([prefix + line for line in bare_logs.k3()])
    assert verdict.fit is Fit.WHOLE
    assert not missing_facts(findings.log.notes[0], "time was left out")


def test_a_log_without_stamps_keeps_the_kernels_own(check: Check) -> None:
    findings, _ = check([f"[    {n}.{n:06d}] a driver says {n}" for n in range(40)])
    assert not findings.log.notes
    assert findings.log.text(3).startswith("[    2.000002]")


@pytest.mark.parametrize("indent", [1, 4, 9])
def test_an_indent_that_all_lines_have_is_left_out(check: Check, indent: int) -> None:
    findings, verdict = check([" " * indent + line for line in bare_logs.k3()])
    assert verdict.fit is Fit.WHOLE
    assert "all lines are indented" in findings.log.notes[0]


@pytest.mark.parametrize("width", [200, 240])
def test_blanks_that_fill_up_the_lines_are_a_terminals(check: Check, width: int) -> None:
    findings, verdict = check([line.ljust(width) for line in bare_logs.k3()])
    assert verdict.fit is Fit.WHOLE
    assert findings.flags == ()


@pytest.mark.parametrize("user", ["root", "debian", "weston-user"])
def test_an_automatic_login_is_no_prompt_that_waits(check: Check, user: str) -> None:
    lines = [*bare_logs.k3(end=""), f"am62xx-evm login: {user} (automatic login)", "", f"{user}@am62xx-evm:~# "]
    _, verdict = check(lines)
    assert verdict.fit is Fit.NOT
    assert "logs in automatically" in verdict.reasons[0].why


def test_an_sbl_that_starts_linux_itself_is_named(check: Check) -> None:
    sbl = ["SYSFW Firmware Version 9.2.7--v09.02.07 (Kool Koala)", "[BOOTLOADER_PROFILE] Boot Media       : FLASH"]
    _, verdict = check([*sbl, "NOTICE:  BL31: v2.10.0(release):v2.10.0", "", "am62xx-evm login: "])
    assert verdict.fit is Fit.NOT
    assert "[flows.sbl_linux]" in " ".join(reason.todo for reason in verdict.reasons)


def test_lines_without_newlines_and_colours_in_a_prompt_are_named(check: Check, tmp_path: Path) -> None:
    (tmp_path / "cr.log").write_bytes("\r".join(bare_logs.k3()).encode())
    board = boards.load("am62xx_sk")
    verdict = judge(examine(read(tmp_path / "cr.log", board), board))
    assert "carriage return alone" in verdict.reasons[0].why
    _, verdict = check([*bare_logs.k3(end=""), "\x1b[1mam62xx\x1b[0m-evm login: "])
    assert verdict.fit is Fit.NOT
    assert "terminal sequences" in verdict.reasons[0].why
