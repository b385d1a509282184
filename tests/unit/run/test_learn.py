"""`lab boards learn`: a board type drafted from logs reads them, and marks what they leave open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import bare_logs
from support.facts import missing_facts
from support.public_boots import BOOTS, PublicBoot

from lab import boards
from lab.benchmarks.boot import ENDS, PowerEdge
from lab.boards import BoardType, load_file
from lab.cli import main
from lab.console.model import Chunk, LineTiming
from lab.errors import ConfigurationError
from lab.metrics import Flag
from lab.run.check.bare_log import read
from lab.run.check.findings import examine
from lab.run.check.learn import draft
from lab.run.check.verdict import Fit, judge
from lab.run.rewatch import PromptReply, RewatchResult, rewatch

# What boards of other makers print, as far as it matters.
NXP = [
    *("", "U-Boot SPL 2023.04-lf_v2023.04+gaf7d004eaf (Sep 05 2023 - 10:41:01 +0000)", "Normal Boot"),
    *("WDT:   Started watchdog@30280000 with servicing every 1000ms (60s timeout)", "Trying to boot from BOOTROM"),
    *(
        "NOTICE:  BL31: v2.8(release):lf-6.1.36-2.1.0-0-g1a3beeab6",
        "NOTICE:  BL31: Built : 09:13:22, Aug  2 2023",
        "",
        "",
    ),
    *("U-Boot 2023.04-lf_v2023.04+gaf7d004eaf (Sep 05 2023 - 10:41:01 +0000)", ""),
    *("CPU:   i.MX8MMQ rev1.0 1800 MHz (running at 1200 MHz)", "Model: NXP i.MX8MM LPDDR4 EVK board", "DRAM:  2 GiB"),
    *(bare_logs.COUNTDOWN, "switch to partitions #0, OK", "mmc1 is current device", "", "Starting kernel ...", ""),
    "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]",
    "[    0.000000] Linux version 6.1.36+g04b05c5527e9 (oe-user@oe-host) #1 SMP PREEMPT",
    "[    0.000000] Machine model: FSL i.MX8MM EVK board",
    "[    0.000000] Kernel command line: console=ttymxc1,115200 root=/dev/mmcblk1p2 rootwait rw",
    "[    2.900000] EXT4-fs (mmcblk1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    "[    2.910000] VFS: Mounted root (ext4 filesystem) on device 179:2.",
    "[    3.000000] Run /sbin/init as init process",
    *("NXP i.MX Release Distro 6.1-mickledore imx8mm-lpddr4-evk ttymxc1", "", "imx8mm-lpddr4-evk login: "),
]
ST = [
    *("NOTICE:  CPU: STM32MP157CAC Rev.B", "NOTICE:  Model: STMicroelectronics STM32MP157C-DK2 Discovery Board"),
    *("NOTICE:  BL2: v2.6-stm32mp1-r1.0(release):v2.6-dirty", "NOTICE:  BL2: Booting BL32", "", ""),
    *("U-Boot 2021.10-stm32mp-r1 (Oct 04 2021 - 15:09:26 +0000)", "", "CPU: STM32MP157CAC Rev.B"),
    *("Model: STMicroelectronics STM32MP157C-DK2 Discovery Board", "Hit any key to stop autoboot:  1 \b\b\b 0 "),
    *(
        "Boot over mmc0!",
        "switch to partitions #0, OK",
        "mmc0 is current device",
        "Scanning mmc 0:4...",
        "",
        "Starting kernel ...",
        "",
    ),
    "[    0.000000] Booting Linux on physical CPU 0x0",
    "[    0.000000] Linux version 5.15.24 (oe-user@oe-host) #1 SMP PREEMPT Wed Feb 16 11:54:34 UTC 2022",
    "[    0.000000] Kernel command line: root=PARTUUID=e91c4e10-16e6-4c0e-bd0e-77becf4a3582 rootwait rw console=ttySTM0,115200",
    "[    3.500000] EXT4-fs (mmcblk0p6): mounted filesystem with ordered data mode. Opts: (null). Quota mode: disabled.",
    "[    3.510000] VFS: Mounted root (ext4 filesystem) on device 179:6.",
    "[    3.900000] Run /sbin/init as init process",
    *(
        "ST OpenSTLinux - Weston - (A Yocto Project Based Distro) 3.1-snapshot stm32mp1 ttySTM0",
        "",
        "stm32mp1 login: ",
    ),
]
ROCKCHIP = [
    *("", "U-Boot TPL 2021.04 (May 10 2021 - 12:00:00)", "Channel 0: LPDDR4, 50MHz", "Trying to boot from BOOTROM"),
    *("Returning to boot ROM...", "", "U-Boot SPL 2021.04 (May 10 2021 - 12:00:00 +0000)", "Trying to boot from MMC1"),
    *("NOTICE:  BL31: v2.4(release):v2.4", "", "", "U-Boot 2021.04 (May 10 2021 - 12:00:00 +0000)", ""),
    *("SoC: Rockchip rk3399", "Model: FriendlyElec NanoPi R4S", "DRAM:  3.9 GiB", bare_logs.COUNTDOWN),
    *("switch to partitions #0, OK", "mmc1 is current device", "Scanning mmc 1:1...", "", "Starting kernel ...", ""),
    "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd034]",
    "[    0.000000] Linux version 5.15.35 (armbian@next) #1 SMP PREEMPT Wed Apr 20 07:34:22 UTC 2022",
    "[    0.000000] Machine model: FriendlyElec NanoPi R4S",
    "[    0.000000] Kernel command line: root=/dev/mmcblk1p1 rootwait console=ttyS2,1500000 rw",
    "[    4.100000] EXT4-fs (mmcblk1p1): mounted filesystem with ordered data mode. Quota mode: none.",
    "[    4.110000] VFS: Mounted root (ext4 filesystem) on device 179:1.",
    *("[    4.300000] Run /sbin/init as init process", "Armbian 22.05 Jammy ttyS2", "", "nanopi-r4s login: "),
]
TI, FALCON = (
    bare_logs.k3(),
    [*bare_logs.first_spl(), *bare_logs.KERNEL, *bare_logs.ROOT, *bare_logs.INIT, bare_logs.LOGIN],
)


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("\r\n".join(lines), encoding="latin-1")
    return path


def learnt(tmp_path: Path, **logs: list[str]) -> tuple[str, BoardType, list[Path]]:
    """The draft, its type, and the logs; of each its medium."""
    pairs = [(name.partition("__")[0], written(tmp_path / f"{name}.log", lines)) for name, lines in logs.items()]
    text = draft("my_board", pairs).text
    (file := tmp_path / "my_board.toml").write_text(text)
    return text, load_file(file), [path for _, path in pairs]


@pytest.mark.parametrize(
    ("lines", "host", "linux", "speed", "spl"),
    [
        (TI, "am62xx-evm", "ttyS2", 115200, 2),
        (NXP, "imx8mm-lpddr4-evk", "ttymxc1", 115200, 1),
        (ST, "stm32mp1", "ttySTM0", 115200, 0),
        (ROCKCHIP, "nanopi-r4s", "ttyS2", 1500000, 1),
    ],
    ids=["ti", "nxp", "st", "rockchip"],
)
def test_a_draft_reads_its_log_whole(
    tmp_path: Path, lines: list[str], host: str, linux: str, speed: int, spl: int
) -> None:
    text, board, (log,) = learnt(tmp_path, sd=lines)
    findings = examine(read(log, board), board)
    assert judge(findings).fit is Fit.WHOLE, judge(findings).reasons
    assert findings.result.samples[0].params == {"medium": "sd"}
    assert findings.flags == ()
    assert board.prompts.login == f"{host} login: "
    assert (board.console.linux, board.console.speed_bd) == (linux, speed)
    assert [moment.times for moment in board.moments if moment.name == "spl"] == [spl] * bool(spl)
    stages = [moment.stage for moment in board.moments if moment.stage]
    assert len(stages) == len(set(stages))
    assert stages[0].startswith("Power on to ")
    assert "the medium of" not in text, "it was said"
    assert not missing_facts(text, "UNSURE", "boot-mode straps")


def test_two_media_are_told_apart_by_what_names_them(tmp_path: Path) -> None:
    emmc = [line.replace("MMC2", "MMC1").replace("mmc1", "mmc0").replace("mmcblk1", "mmcblk0") for line in TI]
    _, board, logs = learnt(tmp_path, sd=TI, emmc=emmc)
    assert {each.source: each.media for each in board.evidence}["spl"] == {"MMC2": "sd", "MMC1": "emmc"}
    assert [examine(read(log, board), board).result.samples[0].params["medium"] for log in logs] == ["sd", "emmc"]
    assert board.media["emmc"].root == "/dev/mmcblk0p2"


def test_a_word_that_two_media_share_proves_nothing_and_is_left_out(tmp_path: Path) -> None:
    text, board, _ = learnt(tmp_path, sd=TI, emmc=[line.replace("mmcblk1", "mmcblk0") for line in TI])
    assert not missing_facts(text, "UNSURE", "spl", "'MMC2'", "emmc", "sd", "left out")
    assert not missing_facts(text, "UNSURE", "uboot", "'mmc1'")
    assert {each.source for each in board.evidence} == {"kernel", "rootfs"}


def test_no_medium_is_guessed_of_a_log_whose_medium_nobody_gave(tmp_path: Path) -> None:
    text = draft("my_board", [("", written(tmp_path / "a.log", NXP))]).text
    assert not missing_facts(text, "UNSURE", "medium of a.log")
    assert '\nmedium = { title = "medium", root = "/dev/mmcblk1p2" }' in text
    assert '= "sd"' not in text


def test_a_log_that_holds_a_reset_is_not_drafted_without_doubt(tmp_path: Path) -> None:
    text, board, _ = learnt(tmp_path, sd=[*NXP[:-1], *NXP])
    doubted = {line.split()[2] for line in text.splitlines() if "times: does one healthy boot" in line}
    assert {"spl", "uboot", "starting_kernel", "first_printk", "init"} <= doubted
    assert {moment.name for moment in board.moments if moment.times == 2} == doubted


@pytest.mark.parametrize(
    ("last", "host"),
    [
        ("(none) login: ", r"\(none\)"),
        ("acme login: root", "acme"),
        ("acme login: [    9.000000] usb 1-1: new device", "acme"),
    ],
)
def test_the_login_prompt_ends_the_boot_whatever_stands_behind_it(tmp_path: Path, last: str, host: str) -> None:
    later = ["Password: ", "root@acme:~# ls", "[  314.000000] usb 1-1: new device"]
    text, board, _ = learnt(tmp_path, sd=[*NXP[:-1], last, *later])
    assert board.prompts.login == f"{host} login: "
    assert "end at 3 s" in text
    assert "no log is logged in" not in text


def test_a_loaders_own_command_line_and_the_kernels_cpu_line_are_not_what_they_look_like(tmp_path: Path) -> None:
    own = "Kernel command line: otg_device=1 buildvariant=eng"
    lines = [line for line in NXP if not line.startswith("CPU:")]
    at = lines.index("Starting kernel ...")
    text, board, _ = learnt(
        tmp_path,
        sd=[*lines[:at], own, *lines[at : at + 3], "CPU: ARMv7 Processor [413fc090] revision 0", *lines[at + 3 :]],
    )
    assert board.console.linux == "ttymxc1"
    assert board.media["sd"].root == "/dev/mmcblk1p2"
    assert board.soc == "unknown"
    assert "UNSURE: no log names it" in text


@pytest.mark.parametrize("behind", ["[0:   swapper:    0] ", "c0 "])
def test_a_first_printk_with_processor_or_task_in_its_stamp_is_known(tmp_path: Path, behind: str) -> None:
    lines = [re.sub(r"^(\[ +\d.*?\]) ", rf"\1 {behind}", line) for line in NXP]
    at = lines.index("Starting kernel ...") + 2
    _, board, (log,) = learnt(tmp_path, sd=lines)
    found = {moment.pattern.name: moment.lines for moment in examine(read(log, board), board).moments}
    assert found["first_printk"] == (at + 1,)


def test_a_first_printk_that_nothing_knows_is_said(tmp_path: Path) -> None:
    text, board, _ = learnt(tmp_path, sd=[re.sub(r"^\[ +\d.*?\] ", "I[000000] ", line) for line in NXP])
    assert not missing_facts(text, "UNSURE", "first_printk")
    assert "first_printk" not in {moment.name for moment in board.moments}


def test_a_comment_in_a_boots_text_is_no_shell(tmp_path: Path) -> None:
    at = NXP.index("Starting kernel ...")
    _, board, (log,) = learnt(tmp_path, sd=[*NXP[:at], "# a comment", *NXP[at:]])
    assert judge(examine(read(log, board), board)).fit is Fit.WHOLE


def test_the_stages_of_another_makers_board_name_what_ran(tmp_path: Path) -> None:
    _, board, _ = learnt(tmp_path, sd=NXP)
    stages = {moment.name: moment.stage for moment in board.moments}
    assert (stages["tfa"], stages["uboot"]) == ("SPL", "TF-A")


def test_a_boot_without_u_boots_last_word_is_a_flow_of_its_own(tmp_path: Path) -> None:
    text, board, logs = learnt(tmp_path, sd=TI, sd__falcon=FALCON)
    assert board.flows["direct"].start == "spl"
    assert not missing_facts(text, "UNSURE", "name", "title", "moment")
    found = [examine(read(log, board), board).result.samples[0] for log in logs]
    assert [sample.metric for sample in found] == ["boot.time", "boot.spl_to_prompt"]


@pytest.mark.parametrize("name", ['a "first" boot', "two\nlines = 1", "back\\slash", "it's"])
def test_a_logs_name_breaks_no_draft(tmp_path: Path, name: str) -> None:
    lines = [line for line in NXP if "Starting kernel" not in line]
    text = draft("my_board", [("", written(tmp_path / f"{name}.log", lines))]).text
    (tmp_path / "my_board.toml").write_text(text)
    assert load_file(tmp_path / "my_board.toml").name == "my_board"


def test_what_no_log_says_is_marked_and_the_draft_loads_all_the_same(tmp_path: Path) -> None:
    text, board, _ = learnt(tmp_path, sd=[*bare_logs.first_spl(), *bare_logs.UBOOT])
    assert not missing_facts(text, "UNSURE", "no log", "login prompt")
    assert not missing_facts(text, "UNSURE", "no log", "the board")
    assert not missing_facts(text, "UNSURE", "no log", '"Starting kernel ..."')
    assert board.moments[-1].name == "shell"


def test_the_command_writes_the_draft_and_says_how_it_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, file = written(tmp_path / "a.log", NXP), tmp_path / "evk.toml"
    assert main(["boards", "learn", f"sd={log}", "-o", str(file)]) == 0
    assert f"{log}: fits" in capsys.readouterr().err
    assert main(["console", "check", str(file), str(log)]) == 0
    assert main(["boards", "learn", str(log), "-o", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["boards", "learn", str(log)]) == 0
    assert 'name = "my_board"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "lines", "told"),
    [
        ("My Board", TI, "'My Board' is no name of a board type"),
        ("am62xx_sk", TI, "there is a board type 'am62xx_sk' already"),
        ("mine", ["hello", "world"], r"a\.log: no moment of a boot is in it .*: is it the log of a boot"),
        ("mine", ["Loading, please wait...", "", "acme login: "], r"a\.log: its login prompt is its only moment"),
        ("mine", [""], r"a\.log: is empty"),
        ("mine", ["\x00\x00\x00\x01" * 50], r"a\.log: is not a text"),
    ],
)
def test_a_wrong_log_or_name_is_one_message(tmp_path: Path, name: str, lines: list[str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        draft(name, [("", written(tmp_path / "a.log", lines))])


def played(board: BoardType, lines: Sequence[str], answer: str = "") -> RewatchResult:
    """A run that gets a boot in pieces, as a port gives them, and an answer to Enter."""
    chunks: list[Chunk] = []
    timing, t_ns, position = LineTiming(board.console.speed_bd), 1_000_000_000, 0
    for line in "\r\n".join(lines).encode("latin-1").splitlines(keepends=True):
        t_ns += 200_000_000
        for piece in filter(None, (line[:17], line[17:])):
            t_ns += timing.bytes_ns(len(piece))
            chunks.append(Chunk(t_ns, position, piece))
            position += len(piece)
    reply = PromptReply(b"\r\n" + (answer or lines[-1]).encode("latin-1"), t_ns)
    return rewatch(chunks, board, next(iter(board.media)), PowerEdge(0, 0), timing, reply)


@pytest.mark.parametrize("boot", BOOTS.values(), ids=list(BOOTS))
def test_a_public_boots_draft_is_right_or_unsure_in_every_value(tmp_path: Path, boot: PublicBoot) -> None:
    text, board, (log,) = learnt(tmp_path, medium=list(boot.lines))
    right = {
        "title": boot.model,
        "soc": boot.soc,
        "linux": boot.console,
        "speed_bd": str(boot.speed_bd),
        "uboot": re.escape(boot.uboot).replace("\\ ", " "),
        "login": f"{boot.host} login: " if boot.host else "",
    }
    said = [line for line in text.split("[flows.direct]")[0].splitlines() if "UNSURE" not in line]
    said += [line for line in text.partition("\n[prompts]\n")[2].splitlines() if "UNSURE" not in line]
    sure = dict(match.groups() for line in said if (match := re.fullmatch(r"""(\w+) = ["']?(.*?)["']?""", line)))
    assert {key: value for key, value in sure.items() if key in right and value != right[key]} == {}
    if boot.console:
        assert board.console.linux == boot.console
    if boot.host:
        assert board.prompts.login == f"{boot.host} login: "
    findings = examine(read(log, board), board)
    optional = {"autoboot", "kernel_load", *ENDS}
    printed = sorted((moment for moment in findings.moments if moment.lines), key=lambda moment: moment.lines)
    assert tuple(moment.pattern.name for moment in printed if moment.pattern.name not in optional) == boot.moments


@pytest.mark.parametrize(
    "boot",
    [boot for boot in BOOTS.values() if boot.healthy],
    ids=[name for name, boot in BOOTS.items() if boot.healthy],
)
def test_check_draft_and_a_played_run_agree_on_a_public_boot(tmp_path: Path, boot: PublicBoot) -> None:
    text, board, (log,) = learnt(tmp_path, medium=list(boot.lines))
    findings = examine(read(log, board), board)
    ends = [n for n, line in enumerate(boot.lines) if re.match(board.prompts.login, f"{line.split(':')[0]}: ")]
    at = next((n for n, line in enumerate(boot.lines) if "press Enter" in line), ends[0] if ends else -1)
    prompt = boot.lines[at].partition(": ")[0] + ": " * (": " in boot.lines[at])
    asks = "press Enter" in prompt
    run = played(board, (*boot.lines[:at], prompt, *("",) * asks), boot.lines[-1] if asks else prompt)
    assert judge(findings).fit is Fit.WHOLE, judge(findings).reasons
    assert run.error is None
    assert [(m.name, m.text) for m in run.moments] == [(m.name, m.text) for m in findings.result.moments]
    assert {str(flag) for sample in run.samples for flag in sample.flags} >= set(findings.flags)
    assert [sample.params for sample in run.samples] == [sample.params for sample in findings.result.samples]
    assert all(f"flag its numbers: {', '.join(findings.flags)}" in text for _ in findings.flags)


@pytest.mark.parametrize(
    "boot", [b for b in BOOTS.values() if not b.healthy], ids=[name for name, b in BOOTS.items() if not b.healthy]
)
def test_check_and_a_played_run_agree_that_a_boot_does_not_reach_its_prompt(tmp_path: Path, boot: PublicBoot) -> None:
    text, board, (log,) = learnt(tmp_path, medium=list(boot.lines))
    assert judge(examine(read(log, board), board)).fit is Fit.PART
    assert played(board, boot.lines).error is not None
    assert not missing_facts(text, "UNSURE", "medium.log", "in part")


@pytest.mark.parametrize(
    "behind", ["", " ", "\r\n", "\r\n[    6.100000] br-lan: port 1(eth0) entered forwarding state\r\n"]
)
@pytest.mark.parametrize("answer", ["/ # ", "root@OpenWrt:/# ", "$ "])
def test_check_and_a_run_say_the_same_of_a_line_that_asks_for_enter(tmp_path: Path, behind: str, answer: str) -> None:
    boot = [line for line in BOOTS["mlwg3-openwrt"].lines if line != "root@OpenWrt:/# "]
    at = boot.index("Please press Enter to activate this console.")
    asking = [*boot[:at], *(boot[at] + behind).split("\r\n")]
    text, board, (log,) = learnt(tmp_path, sd=[*asking, "", "", answer])
    findings, run = examine(read(log, board), board), played(board, asking, answer)
    assert (judge(findings).fit is Fit.WHOLE) == (run.error is None) == (answer != "$ ")
    if answer == "$ ":
        assert not missing_facts(text, "no line", "`shell`")
    else:
        assert run.samples[0].flags == findings.result.samples[0].flags
        assert Flag.PROMPT_REPEATED not in run.samples[0].flags
        assert findings.result.prompt is not None
        assert run.prompt is not None
        assert run.prompt.text == findings.result.prompt.text


def test_a_log_that_ends_where_enter_is_asked_for_leaves_the_answer_open(tmp_path: Path) -> None:
    boot = list(BOOTS["mlwg3-openwrt"].lines)
    at = boot.index("Please press Enter to activate this console.")
    text, board, (log,) = learnt(tmp_path, sd=boot[: at + 1])
    verdict = judge(examine(read(log, board), board))
    assert verdict.fit is Fit.PART
    assert not missing_facts(text, "not show", "`shell`")
    assert not missing_facts(text, "UNSURE", "no log", "behind Enter")


def test_a_log_that_ends_elsewhere_is_said_in_the_draft(tmp_path: Path) -> None:
    text, _, _ = learnt(tmp_path, sd=NXP[:-4])
    assert not missing_facts(text, "# UNSURE", "sd.log", "does not reach the prompt")


def test_a_line_that_only_one_log_has_is_no_marker(tmp_path: Path) -> None:
    once = [line for line in NXP if "BL31" not in line]
    text, board, logs = learnt(tmp_path, sd=NXP, sd__b=once, sd__c=once)
    assert not missing_facts(text, "UNSURE", "sd__b.log", "no tfa", "left out")
    assert "tfa" not in {moment.name for moment in board.moments}
    assert "one log: a line" not in text
    assert [judge(examine(read(log, board), board)).fit for log in logs] == [Fit.WHOLE] * 3


def test_a_log_that_begins_late_takes_no_marker_away(tmp_path: Path) -> None:
    _, board, _ = learnt(tmp_path, sd=NXP, sd__late=NXP[NXP.index("Normal Boot") :])
    moments = {moment.name: moment for moment in board.moments}
    assert not moments["spl"].required
    assert "tfa" in moments


def test_what_two_logs_say_the_same_is_sure_and_what_they_differ_in_is_not(tmp_path: Path) -> None:
    other = [line.replace("ttymxc1", "ttymxc0").replace("i.MX8MMQ", "i.MX8MMD") for line in NXP]
    text, _, _ = learnt(tmp_path, sd=NXP, sd__b=NXP)
    assert not [
        line for line in text.splitlines() if line.startswith(("soc", "linux", "speed_bd")) and "UNSURE" in line
    ]
    text, _, _ = learnt(tmp_path, sd=NXP, sd__b=other)
    doubts = {line.split(" = ")[0]: line for line in text.splitlines() if "UNSURE" in line}
    assert not missing_facts(doubts["linux"], "sd__b.log", '"ttymxc0"', "too")
    assert "i.MX8MMD" in doubts["soc"]


def test_a_start_that_u_boot_only_tried_is_no_moment(tmp_path: Path) -> None:
    at = NXP.index("Starting kernel ...")
    tracing = [*NXP[:at], "Starting kernel ...(fake run for tracing)", "", "", *NXP[at:]]
    _, board, (log,) = learnt(tmp_path, sd=tracing)
    findings = examine(read(log, board), board)
    assert judge(findings).fit is Fit.WHOLE
    assert findings.flags == ()
    assert next(moment.lines for moment in findings.moments if moment.pattern.name == "starting_kernel") == (at + 4,)
    start = played(board, tuple(tracing)).start
    assert start is not None
    assert start.position == len("\r\n".join(tracing[: at + 4]))


LINES = st.sampled_from([*TI, *NXP, *ROCKCHIP, *FALCON, "x' login: ", 'a"b login: ', "=> \\", "# ' \" \\ \x1b[0m é"])


@given(st.lists(st.lists(LINES, max_size=30), min_size=1, max_size=3))
def test_any_log_gives_a_type_that_loads_or_one_message(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    pairs = [("", written(folder / f"any{number}.log", lines)) for number, lines in enumerate(logs)]
    try:
        text = draft("any_board", pairs).text
    except ConfigurationError:
        return
    (file := folder / "any_board.toml").write_text(text)
    board = load_file(file)
    assert boards.patterns(board)
    for _, path in pairs:
        examine(read(path, board), board)


def test_a_hang_of_a_board_without_u_boot_is_no_reset(tmp_path: Path) -> None:
    at = next(number for number, line in enumerate(NXP) if "Booting Linux" in line)
    _, board, (log,) = learnt(
        tmp_path, sd=[*NXP[at:-2], "[    3.500000] systemd[1]: systemd 254 running in system mode", ""]
    )
    verdict = judge(examine(read(log, board), board))
    assert (verdict.fit, "reset" in str(verdict.reasons)) == (Fit.PART, False)
