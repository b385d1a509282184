"""What the guides have and the sections promise is run, as the guides say it, and put back."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import define, evolve, field
from support import section_outputs
from support.scripted_host import Answer, ScriptedHost, session
from support.section_bench import section_bench

from lab import boards
from lab.benchmarks.sections import ALL
from lab.errors import BoardTransientError, LabTransientError, TestTransientError
from lab.run.session import CommandResult
from lab.virtual.sim import figures

SECTIONS = {section.name: section for section in ALL}
AES, SHAM = "/sys/bus/platform/drivers/omap-aes/53501000.aes", "/sys/bus/platform/drivers/omap-sham/53100000.sham"
OMAP = "name         : cbc(aes)\ndriver       : cbc-aes-omap\nmodule       : omap_aes\npriority     : 300\n"
CE = OMAP.replace("omap", "ce")
TUNABLE = f"{AES}/queue_len:10\n{SHAM}/queue_len:10\n{AES}/fallback:200\n{SHAM}/fallback:256"


def test_ipsec_is_measured_with_every_cipher_of_the_guides(tmp_path: Path) -> None:
    with section_bench(tmp_path) as bench:
        bench.run.measure(SECTIONS["ipsec-software"])
        samples = bench.store.samples(bench.run.run.id, metric="ipsec.throughput")
    measured = {sample.params["algorithm"] for sample in samples}
    assert measured == {"aes128", "aes192", "aes256", "3des"}


@define
class Kernel(ScriptedHost):
    """`ip xfrm` as the kernel has it: a state that is there is not taken again, and one without its cipher never."""

    has_des: bool = True
    states: set[str] = field(factory=set)

    def run(self, command: str, timeout_s: float) -> CommandResult:
        words = command.split()
        if command == "ip xfrm state flush":
            self.states.clear()
        if words[:4] == ["ip", "xfrm", "state", "add"]:
            name = " ".join(words[4:11])
            refused = name in self.states or (not self.has_des and "des3_ede" in command)
            if refused:
                return CommandResult(["refused"] if "|| echo refused" in command else [], 0 if "||" in command else 2)
            self.states.add(name)
        return super().run(command, timeout_s)


@pytest.mark.parametrize(("on_board", "on_tester"), [(True, True), (False, True), (True, False)])
def test_triple_des_is_measured_where_both_kernels_have_it_and_else_the_other_ciphers_are(
    *, on_board: bool, on_tester: bool
) -> None:
    (said,) = [output.text.decode() for output in section_outputs.played() if output.name == "ipsec"]
    host = Kernel({"proc/crypto": CE, "iperf": said}, has_des=on_board)
    found = list(SECTIONS["ipsec-software"].measure(session(host, Kernel(has_des=on_tester))))
    measured = {reading.params["algorithm"] for reading in found}
    assert measured == {"aes128", "aes192", "aes256"} | ({"3des"} if on_board and on_tester else set())


def test_the_queue_and_the_fallback_of_the_accelerator_are_the_guides_and_are_put_back_after_a_failure() -> None:
    answers: dict[str, Answer | list[Answer]] = {
        "proc/crypto": OMAP,
        "^grep -H": TUNABLE,
        "iperf": BoardTransientError("cut off", failure="command_timeout"),
    }
    host = ScriptedHost(answers)
    with pytest.raises(BoardTransientError):
        list(SECTIONS["ipsec-hardware"].measure(session(host, ScriptedHost())))
    written = [command for command in host.ran if command.startswith("echo ")]
    assert [c for c in written if "iperf" not in c] == [
        f"echo 300 > {AES}/queue_len",
        f"echo 300 > {SHAM}/queue_len",
        f"echo 9 > {AES}/fallback",
        f"echo 9 > {SHAM}/fallback",
        f"echo 10 > {AES}/queue_len",
        f"echo 10 > {SHAM}/queue_len",
        f"echo 200 > {AES}/fallback",
        f"echo 256 > {SHAM}/fallback",
    ]


def test_ipsec_in_software_leaves_the_accelerator_alone() -> None:
    host = ScriptedHost({"proc/crypto": CE, "^grep -H": TUNABLE})
    with pytest.raises(TestTransientError):
        list(SECTIONS["ipsec-software"].measure(session(host, ScriptedHost())))
    assert not any("queue_len" in command for command in host.ran)


def test_the_simulated_am437x_is_tuned_for_hardware_and_given_back(tmp_path: Path) -> None:
    with section_bench(tmp_path, "am43xx-gpevm") as bench:
        bench.run.measure(SECTIONS["ipsec-hardware"])
        after = bench.session(SECTIONS["ipsec-hardware"]).run(f"cat {AES}/queue_len {AES}/fallback")
        log = bench.store.attempts(bench.run.run.id)[0]
    assert log.outcome == "ok"
    assert after.split() == [b"10", b"200"]


def test_the_usb_device_of_the_am437x_is_measured_as_its_guide_has_it(tmp_path: Path) -> None:
    assert SECTIONS["usb-device"].fits(boards.load("am43xx-gpevm"))
    with section_bench(tmp_path, "am43xx-gpevm") as bench:
        bench.run.measure(SECTIONS["usb-device"])
        (attempt,) = bench.store.attempts(bench.run.run.id)
    assert {s.params["direction"] for s in attempt.samples} == {"read", "write"}


@pytest.mark.parametrize(
    ("board", "wanted"),
    [("am43xx-gpevm", {"port": "cpsw", "window": "default"}), ("am62xx_sk", {"port": "cpsw"})],
)
def test_tcp_has_the_parameters_of_the_boards_published_row(
    tmp_path: Path, board: str, wanted: dict[str, str]
) -> None:
    with section_bench(tmp_path, board) as bench:
        bench.run.measure(SECTIONS["tcp"])
        (attempt,) = bench.store.attempts(bench.run.run.id)
        known = figures.load(board, bench.lab.board.model.release_name)
    assert all(known.has(sample.metric, **wanted) and sample.params == wanted for sample in attempt.samples)


@pytest.mark.parametrize(("board", "frames"), [("am43xx-gpevm", 64), ("am62xx_sk", 256), ("am62axx_sk", 256)])
def test_audio_has_the_period_that_the_published_numbers_are_of(board: str, frames: int) -> None:
    host = ScriptedHost({"run_alsa_perf": "|TRACE LOG|Read: nothing|"})
    with pytest.raises(TestTransientError):
        list(SECTIONS["alsa"].measure(evolve(session(host), board=boards.load(board))))
    assert f"-periodsize {frames} " in host.ran[0]


@pytest.mark.parametrize(
    ("section", "command", "on_tester"),
    [
        ("ipsec-software", "ip xfrm state flush", False),
        ("ipsec-hardware", "ip xfrm policy flush", True),
        ("can", "ip link set can0 type can loopback off|can0 down", False),
        ("sd-fio", "umount -l", False),
    ],
)
def test_what_cannot_be_put_back_is_said_since_later_numbers_would_have_it(
    section: str, command: str, *, on_tester: bool
) -> None:
    stays = ScriptedHost({command: ("RTNETLINK answers: Operation not permitted", 2)})
    bench = session(ScriptedHost(), stays) if on_tester else session(stays, ScriptedHost())
    with pytest.raises((BoardTransientError, LabTransientError), match=r"status 2: 'RTNETLINK"):
        SECTIONS[section].restore(bench)


@pytest.mark.parametrize("shown", [True, False])
def test_an_interrupt_pacing_that_stays_is_said_where_the_driver_shows_what_it_was(*, shown: bool) -> None:
    (said,) = [output.text.decode() for output in section_outputs.played() if output.name == "netperf tcp"]
    host = ScriptedHost(
        {
            "ethtool -c": "rx-usecs: 16\n" if shown else "",
            "ethtool -C eth0 rx-usecs (16|0)": ("netlink error: Operation not supported", 1),
            "netperf": said,
        }
    )
    measured = SECTIONS["tcp-pacing"].measure(session(host, ScriptedHost()))
    if shown:
        with pytest.raises(BoardTransientError, match="rx-usecs 16` failed"):
            list(measured)
    else:
        assert len(list(measured)) == 2
