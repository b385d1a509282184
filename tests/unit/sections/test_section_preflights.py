"""Every trap that can be seen before a measurement stops it, and says what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.scripted_host import Answer, ScriptedHost, session

from lab import boards
from lab.benchmarks import needs
from lab.benchmarks.ipsec import SECTIONS as IPSEC
from lab.benchmarks.lab_site import LabSite, of_options
from lab.benchmarks.section import Need, preflight
from lab.benchmarks.sections import ALL, of_chapter, order
from lab.errors import ConfigurationError, TestTransientError
from lab.metrics import Flag
from lab.run.sections import RunSetup
from lab.run.session import CommandResult

SECTIONS = {section.name: section for section in ALL}
TIME = tuple(need for need in SECTIONS["openssl"].needs if need.name == "tool time")
NFS = "192.168.0.1:/srv /mnt nfs4 rw,addr=192.168.0.1 0 0"
CRYPTO = "name         : cbc(aes)\ndriver       : cbc-aes-sa2ul\nmodule       : sa2ul\npriority     : 30000\n"
TRAPS: list[tuple[Need, dict[str, Answer], str]] = [
    (needs.tool("fio"), {"command -v fio": ("", 1)}, "the board has no program fio; install fio"),
    (
        needs.all_cpus_online(),
        {"cpu/present": "0-3", "cpu/online": "0"},
        r"of processors 0-3 only 0 are online; .*nr_cpus=",
    ),
    (needs.display(), {"class/drm": "disconnected\ndisconnected"}, "no display is connected .*; connect one"),
    (needs.display(), {"class/drm": ("", 1)}, "no display is connected"),
    (needs.program_time("-v"), {"env time -v": ("", 127)}, "no program `time` that knows -v"),
    (needs.dd_that_says_its_time(), {"^dd ": "1+0 records in\n1+0 records out"}, "install coreutils"),
    (needs.uboot_time(), {"help time": ("Unknown command 'time'", 1)}, "CONFIG_CMD_TIME=y"),
    (needs.scratch("emmc"), {}, "the env names nothing that may be overwritten for emmc"),
    (needs.filesystem("vfat"), {"vfat": ("", 1)}, "the kernel has no vfat; configure it"),
    (needs.link_speed(), {"eth0/speed": "100"}, "eth0 runs at 100 Mbit/s, AM62x SK has it at 1000"),
    (needs.link_speed(), {"eth0/speed": ("cat: read error: Invalid argument", 1)}, "eth0 has no link"),
    (needs.private_link(), {"proc/mounts": NFS}, "the board has mounted NFS from 192.168.0.1 over eth0"),
    (
        needs.private_link(),
        {
            "proc/mounts": NFS.replace("0.1", "5.5"),
            "route get": "192.168.5.5 via 192.168.0.9 dev eth0 src 192.168.0.2",
        },
        "NFS from 192.168.5.5 over eth0",
    ),
    (
        needs.netperf_options(on_tester=False),
        {"netperf": "Packet burst size is not compiled in. \nNetperf version 2.7.0"},
        r"the board's netperf ignores -b and -w \(Packet burst size is not compiled in.\)",
    ),
    (IPSEC[0].needs[-1], {"proc/crypto": CRYPTO}, "ESP would use cbc-aes-sa2ul, which is not the software engine"),
    (IPSEC[1].needs[-1], {"proc/crypto": CRYPTO.replace("sa2ul", "ce")}, "not the hardware engine"),
    (IPSEC[0].needs[-1], {"proc/crypto": ""}, "the kernel has no cbc"),
]


@pytest.mark.parametrize(("need", "answers", "says"), TRAPS, ids=lambda value: getattr(value, "name", None))
def test_a_trap_is_named_with_its_mend(need: Need, answers: dict[str, Answer], says: str) -> None:
    found = preflight(evolve(SECTIONS["openssl"], needs=(need,)), session(ScriptedHost(answers)))
    assert list(found.failed) == [need.name]
    assert re.search(says, found.failed[need.name])


def test_the_keyword_of_bash_is_no_program_time(tmp_path: Path) -> None:
    class Bash(ScriptedHost):
        def run(self, command: str, timeout_s: float) -> CommandResult:
            said = subprocess.run(
                ["/bin/bash", "-c", command], env={"PATH": str(tmp_path)}, timeout=timeout_s, check=False
            )
            return CommandResult([], said.returncode)

    for program in ("env", "true"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    assert (
        "no program `time`" in preflight(evolve(SECTIONS["openssl"], needs=TIME), session(Bash())).failed["tool time"]
    )
    (tmp_path / "time").write_text("#!/bin/bash\n")
    (tmp_path / "time").chmod(0o755)
    assert preflight(evolve(SECTIONS["openssl"], needs=TIME), session(Bash())).failed == {}


def test_a_netperf_of_the_tester_that_cannot_limit_its_rate_stops_ingress() -> None:
    tester = ScriptedHost({"netperf -b": "Packet rate control is not compiled in."})
    problem = needs.netperf_options(on_tester=True).check(session(ScriptedHost(), tester))
    assert not missing_facts(problem, "tester's netperf")


def test_the_root_file_system_is_no_scratch_partition_even_where_the_env_says_so() -> None:
    answers: dict[str, Answer] = {
        "mountinfo": "21 1 0:5 / /dev rw - devtmpfs none rw\n22 1 179:10 / / rw,relatime - ext4 /dev/root rw",
        "class/block/mmcblk1p2/dev": "179:10",
    }
    bench = session(ScriptedHost(answers), site=LabSite(scratch={"sd": "/dev/mmcblk1p2"}))
    assert "is the root file system" in needs.unused_partition("sd").check(bench)


def test_a_board_without_any_trap_passes_every_preflight() -> None:
    answers = {
        "eth0/speed": "1000",
        "proc/crypto": CRYPTO.replace("sa2ul", "ce"),
        "class/drm": "disconnected\nconnected",
        "^dd ": "1 byte copied, 1e-05 s",
        "help time": ("time - run", 1),
    }
    host = ScriptedHost(answers)
    tester = ScriptedHost({"command -v": "/usr/bin/it"})
    scratch = {
        "emmc": "/dev/a",
        "sd": "/dev/b",
        "nand": "/dev/c",
        "ospi": "0x0",
        "emmc_blocks": "0x0",
        "sd_fat": "1:1",
    }
    bench = session(host, tester, LabSite(scratch=scratch, uboot={"sd": "mmc 1"}, tftp="FILE"))
    assert {s.name: preflight(s, bench).failed for s in ALL if s.name != "ipsec-hardware"} == {
        s.name: {} for s in ALL if s.name != "ipsec-hardware"
    }


def test_a_section_that_needs_a_tester_says_how_to_get_one() -> None:
    with pytest.raises(ConfigurationError, match=r"env.*no .*`tester`"):
        preflight(SECTIONS["usb-device"], session(ScriptedHost()))


def test_the_governor_is_fixed_and_given_back_and_a_refusal_is_a_flag() -> None:
    host = ScriptedHost(
        {"^cat .*scaling_governor": ["schedutil\nschedutil", "performance\nperformance"], "cur_freq": "1400000"}
    )
    setup = RunSetup()
    setup.take(session(host), {})
    assert setup.flags == set()
    assert setup.facts["clock"] == "1400 MHz"
    setup.give_back(session(host))
    assert "echo schedutil" in host.ran[-1]
    refused = RunSetup()
    refused.take(session(ScriptedHost({"^cat .*scaling_governor": "powersave"})), {})
    assert refused.flags == {Flag.GOVERNOR}


def test_another_clock_card_or_tool_than_before_is_a_flag() -> None:
    slow = RunSetup()
    slow.take(session(ScriptedHost({"scaling_governor": "performance", "cur_freq": "1250000"})), {})
    assert slow.flags == {Flag.CLOCK_DIFFERS}
    answers: dict[str, Answer] = {"mmcblk": "/sys/block/mmcblk1/device/name SR32G", "openssl version": "OpenSSL 3.2.4"}
    first = RunSetup()
    first.take(session(ScriptedHost(answers)), {})
    assert first.facts == {"card mmcblk1": "SR32G", "tool openssl": "3.2.4"}
    again = RunSetup()
    again.take(session(ScriptedHost(answers)), first.facts)
    assert again.flags == set()
    for changed in ("card mmcblk1", "tool openssl"):
        other = RunSetup()
        other.take(session(ScriptedHost(answers)), {**first.facts, changed: "another"})
        assert other.flags == {Flag.SETUP_CHANGED}


def test_sections_stand_by_chapter_those_that_destroy_nothing_first_and_linux_before_u_boot() -> None:
    board = boards.load("am62xx_sk")
    assert [s.name for s in of_chapter("EMMC Driver", board)] == [
        "emmc-fio",
        "emmc-ext4",
        "emmc-ext3",
        "emmc-ext2",
        "emmc-vfat",
        *(f"emmc-{filesystem}-dd" for filesystem in ("ext4", "ext3", "ext2", "vfat")),
    ]
    assert of_chapter("NAND Driver", board) == []
    keys = [order(s) for s in sorted(ALL, key=order)]
    assert keys == sorted(keys)
    its = ["uboot-ospi", "uboot-emmc", "uboot-sd", "uboot-read", "uboot-tftp"]
    assert [s.name for s in ALL if s.where == "uboot"] == its
    writes = [s for s in ALL if "filesystem_tests" in s.command or (s.where == "uboot" and "write" in s.command)]
    assert len(writes) > len(its[:3])
    assert all(s.overwrites for s in writes)


def test_a_wrong_option_of_the_env_is_named_with_what_it_takes() -> None:
    assert of_options({"scratch": {"sd": "/dev/x"}}, "env.yaml").scratch == {"sd": "/dev/x"}
    assert of_options(None, "env.yaml") == LabSite()
    for wrong in ({"scrach": {}}, ["sd"], {"pacing_us": "often"}):
        with pytest.raises(ConfigurationError, match=r"env.yaml: .*tester, board"):
            of_options(wrong, "env.yaml")


def test_interrupt_pacing_is_put_back_to_what_it_was_also_after_a_failure() -> None:
    host = ScriptedHost(
        {"ethtool -c": "rx-usecs: 16\nrx-frames: 0\ntx-usecs: 8", "TCP_STREAM": "netperf: no such host"}
    )
    with pytest.raises(TestTransientError):
        list(SECTIONS["tcp-pacing"].measure(session(host, ScriptedHost())))
    paced = [command for command in host.ran if "ethtool -C" in command]
    assert paced == ["ethtool -C eth0 rx-usecs 250", "ethtool -C eth0 rx-usecs 16"], "transmission is left alone"
