"""Simulated boards on a real bench: pdudaemon, the console server, labgrid, ptys, the panel and the commands."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from labgrid.environment import Environment
from support import own_measurement as own
from support import strangers
from support.atlength import either
from support.facts import missing_facts
from support.measuring_lab import ENOUGH, ROOT, Lab, Number, assert_true, running_lab
from support.strategies import BoardStrategy
from support.virtual_bench import lab_virtual, listening_ports, running_bench

from lab import boards
from lab.boards import MomentPattern
from lab.cli import main
from lab.console.model import Chunk
from lab.console.moments import find_moments
from lab.errors import BoardTransientError, LabTransientError
from lab.host.clock import MonotonicRaw
from lab.results import Attempt, open_store
from lab.run.moment_sources import signal
from lab.virtual.truth_log import read_truth, true_boots

DEADLINE_S = 180
TIME_SCALE = "0.05"  # a boot takes some three seconds then; most of them are the console's
BOARD = "am62xx_sk-1"
MANY = either(8, 64)  # boards
INSTANTS = either(10, 1000)
AGAIN_S = 1.0  # from one to the next: a busy host must not miss half of it
EVIDENCE = 50  # events before an instant: of late reads a second before it
SCENARIO = "boards:\n  'am43*-1':\n    - {fault: kernel_panic, cycles: 1}\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("sim")
    (folder / "monday.yaml").write_text(SCENARIO)
    words = ("--type", "am62xx_sk", "--type", "am43xx-gpevm", "--count", "2", "--time-scale", TIME_SCALE)
    with running_lab(folder, "sim", *words, "--scenario", str(folder / "monday.yaml")) as lab:
        yield lab


@pytest.fixture
def _healthy(lab: Lab) -> Iterator[None]:
    yield
    assert lab_virtual("clear", BOARD, "--dir", lab.bench.folder).returncode == 0


def measured(lab: Lab, *arguments: str, board: str = BOARD) -> list[Attempt]:
    """The attempts of a session that measures a board."""
    env = lab.bench.folder / board / "env.yaml"
    process = lab.pytest("--lg-env", str(env), *arguments)
    assert process.wait(DEADLINE_S) == pytest.ExitCode.OK, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        assert run.provenance["virtual"] is True
        return list(store.attempts(run.id))


def panel(lab: Lab, path: str) -> str:
    return f"http://{lab.bench.state.http}/boards/{path}"


@pytest.mark.parametrize("board", [BOARD, pytest.param("am43xx-gpevm-2", marks=pytest.mark.soak)])
def test_every_medium_is_measured_and_the_times_are_the_true_ones(lab: Lab, board: str) -> None:
    board_type = boards.load(board.rpartition("-")[0])
    assert board_type.identity is not None
    hostname = board_type.identity.hostname

    def numbers(cycles: int) -> list[Number]:
        attempts = measured(lab, "--lab-cycles", str(cycles), board=board)
        assert {attempt.outcome for attempt in attempts} <= {"ok", "stamps_uncertain"}, "a starved host's own fault"
        good = [attempt for attempt in attempts if attempt.ok]
        assert [attempt.params["medium"] for attempt in good] == [
            name for name in board_type.media for _ in range(cycles)
        ]
        samples = [next(s for s in attempt.samples if s.metric == "boot.time") for attempt in good]
        assert all("simulated" in sample.flags for sample in samples)
        truth = read_truth(Path(lab.bench.folder / board / "truth.log"))
        boots = true_boots(truth, hostname)
        starts_ns = [next(m.t_ns for m in attempt.moments if m.name == "starting_kernel") for attempt in good]
        true = [min(boots, key=lambda boot: abs(boot.started_ns - start_ns)).boot_s for start_ns in starts_ns]
        return [(s.value, s.uncertainty, expected) for s, expected in zip(samples, true, strict=True)]

    assert_true(numbers(1), more=lambda: numbers(ENOUGH // len(board_type.media)))


@pytest.mark.usefixtures("_healthy")
@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        ("adapter_renumbered", "adapter_renumbered"),
        ("pdu_connection_refused", "pdu_refused"),
        *(
            pytest.param(fault, outcome, marks=pytest.mark.soak)
            for fault, outcome in {
                "kernel_panic": "kernel_panic",
                "adapter_lost": "adapter_lost",
                "pdu_error": "pdu_refused",
                "prompt_interleaved": "prompt_broken",
                "flood": "log_flood",
            }.items()
        ),
    ],
)
def test_a_fault_from_the_command_line_strikes_the_next_power_on_only(lab: Lab, fault: str, outcome: str) -> None:
    told = lab_virtual("fault", BOARD, fault, "--dir", lab.bench.folder)
    assert told.returncode == 0, told.stderr
    assert fault in told.stdout
    attempts = measured(lab, "--lab-cycles", "1", "--lab-medium", "sd")
    # A busy host may lose a cycle more to itself (`console_overrun`, `stamps_uncertain`); the fault strikes once. What a flood
    # says first, that it is one or that it came too fast to be read, is the host's to decide.
    outcomes = [attempt.outcome for attempt in attempts]
    assert outcomes[0] in {outcome, *(["console_overrun"] if fault == "flood" else [])}
    assert outcomes[-1] == "ok"
    assert outcomes.count(outcome) == (outcomes[0] == outcome)
    assert outcomes.count("ok") == 1


@pytest.mark.soak
@pytest.mark.usefixtures("_healthy")
def test_an_adapter_that_the_board_feeds_stops_the_run_and_its_message_names_it(lab: Lab) -> None:
    assert lab_virtual("fault", BOARD, "adapter_fed_by_board", "--dir", lab.bench.folder).returncode == 0
    env = lab.bench.folder / BOARD / "env.yaml"
    process = lab.pytest("--lg-env", str(env), "--lab-cycles", "2", "--lab-medium", "sd")
    assert process.wait(DEADLINE_S) == pytest.ExitCode.TESTS_FAILED, lab.log
    with open_store(lab.environ["LAB_DB"]) as store:
        *_, last = store.attempts(store.runs()[0].id)
    assert (last.outcome, last.transient) == ("adapter_fed_by_board", False)
    assert not missing_facts(last.message, "adapter", "fed by the board")


def test_the_file_of_the_docs_measures_a_number_of_its_own(lab: Lab, tmp_path: Path) -> None:
    """As of boot times: recorder, evidence, flags, judge, board's page, exporter."""
    own.write(tmp_path)
    env = lab.bench.folder / BOARD / "env.yaml"
    for _ in range(2):
        lab.passes(tmp_path, f"--lg-env={env}", own.FILE, "--lab-cycles", "2", timeout_s=DEADLINE_S)
    with open_store(lab.environ["LAB_DB"]) as store:
        run = store.runs()[0]
        own.assert_kept(store, run.id, cycles=2)
        own.assert_compared(store, run.id)
        own.assert_shown(store, run.id)


@pytest.mark.usefixtures("_healthy")
@pytest.mark.longer
@pytest.mark.timeout(either(120, 3600))
def test_a_pin_a_frame_an_answer_and_a_line_of_one_instant_agree_within_their_bounds(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "BOARDLAB_RUNTIME", lab.environ["BOARDLAB_RUNTIME"])
    planned = lab_virtual("fault", BOARD, "application", f"again_ms={AGAIN_S * 1000:g}", "--dir", lab.bench.folder)
    assert planned.returncode == 0, planned.stderr
    signals = next(board.signals for board in lab.bench.state.boards if board.name == BOARD)
    addresses = {"pin": "pin://APP", "frame": signals["can"], "answer": signals["http"]}
    folder = lab.bench.folder / BOARD
    env = Environment(config_file=str(folder / "env.yaml"))
    try:
        strategy, widths, torn, missed = env.get_target().get_strategy(), list[float](), list[int](), 0
        pin = env.get_target().get_driver("DigitalOutputProtocol", name="APP")
        strategy.off()
        strategy.switch_on()
        while len(widths) < INSTANTS:
            found = instant(strategy, pin, addresses)
            if found is not None:
                middles = [t_ns for t_ns, _ in found.values()]
                if max(middles) - min(middles) > AGAIN_S * 1e9 / 2:
                    missed += 1  # the bench or the test stood still while the pin was high
                    continue
                earliest = {name: t_ns - bound_ns for name, (t_ns, bound_ns) in found.items()}
                latest = {name: t_ns + bound_ns for name, (t_ns, bound_ns) in found.items()}
                left_ns, handed_ns = true_line(folder / "truth.log", found["line"][0], strategy.console)
                # The bench sends the frame, then hands the line on; a busy one stands still between them.
                late_ns, early_ns = handed_ns - earliest["frame"], latest["frame"] - left_ns
                earliest["line"] -= max(0, late_ns)
                latest["line"] += max(0, early_ns)
                assert max(earliest.values()) <= min(latest.values()), (len(widths), earliest, latest)
                widths.append(2 * found["pin"][1])
                torn.append(max(late_ns, early_ns))
        strategy.off()
    finally:
        env.cleanup()
    assert missed <= 2 + INSTANTS // 50
    for each in (widths, torn):
        assert sorted(each)[INSTANTS // 2] < AGAIN_S * 1e9 / 2, "a bound that proves nothing agrees with everything"


def true_line(truth_log: Path, t_ns: int, console: Any) -> tuple[int, int]:
    """When the last byte of the line at `t_ns` left the board, and when its adapter had handed it on."""
    while True:
        truth = read_truth(truth_log)  # it is written with a delay
        for line in truth.matches(b"myapp: ready"):
            if abs(line.t_ns - t_ns) < AGAIN_S * 1e9 / 2:
                return line.t_ns, line.t_ns + truth.delay_ns(line.position - 1)
        console.poll(0.02)


def instant(strategy: Any, pin: Any, addresses: Mapping[str, str]) -> dict[str, tuple[int, int]] | None:
    """The next instant of the board's application: signal -> middle and half width of where it says that it was, in ns.

    None: the instant came while they were opened.
    """
    console, clock = strategy.console, MonotonicRaw()
    while pin.get():
        console.poll(0.005)
    console.sync()  # the line before has come
    position = next((each.end for each in reversed(console.capture) if isinstance(each, Chunk)), 0)
    seen, since_ns = len(console.capture), clock.now_ns()
    with ExitStack() as held:
        try:
            waiting = {
                name: signal(address, clock, since_ns, lambda _name: pin.get) for name, address in addresses.items()
            }
        except LabTransientError:  # the frame came with the bus's first answer
            return None
        for each in waiting.values():
            held.callback(each.close)
        if pin.get() or clock.now_ns() - since_ns > AGAIN_S * 1e9 / 3:
            return None
        found: dict[str, tuple[int, int]] = {}
        while waiting:
            for name, each in list(waiting.items()):
                if (came := each.poll()) is not None:
                    half_ns = came.uncertainty_ns // 2
                    found[name] = came.t_ns - half_ns, half_ns
                    del waiting[name]
            console.poll(0.002)
    pattern = [MomentPattern("line", "myapp: ready", times=0)]
    while "line" not in found:
        for line in find_moments(console.capture[max(0, seen - EVIDENCE) :], pattern, strategy.timing()):
            if line.position > position:
                found.setdefault("line", (line.t_ns, line.uncertainty_ns))
        console.poll(0.02)
    return found


def test_a_limit_of_metrics_toml_fails_the_boot_time_that_is_beyond_it(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text('[[metric]]\nname = "boot.time"\n[[metric.limit]]\nmax = 0.001\n')
    env = lab.bench.folder / BOARD / "env.yaml"
    words = (ROOT / "tests_perf" / "test_boot.py", "--lab-cycles", "1", "--lab-medium", "sd")
    failed = lab.runs(tmp_path, f"--lg-env={env}", *words, timeout_s=DEADLINE_S)
    assert failed.returncode == pytest.ExitCode.TESTS_FAILED
    assert re.search(r"boot.time sd: mean .* s ± .* s: fail \(at most 0.001 s\)", failed.stdout), failed.stdout
    with open_store(lab.environ["LAB_DB"]) as store:
        assert store.runs()[0].status == "completed"


def test_a_scenario_plays_on_the_bench(lab: Lab) -> None:
    attempts = measured(lab, "--lab-cycles", "1", "--lab-medium", "sd", board="am43xx-gpevm-1")
    assert [(attempt.cycle, attempt.outcome) for attempt in attempts] == [(1, "kernel_panic"), (1, "ok")]


def boot_to_uboot(strategy: BoardStrategy) -> None:
    """Reach U-Boot; a starved host may miss the countdown some times."""
    while True:
        try:
            strategy.transition("bootloader")
        except BoardTransientError as error:
            if error.failure != "autoboot_missed":
                raise
        else:
            return


def test_labgrids_own_drivers_reach_u_boot_and_the_shell(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "BOARDLAB_RUNTIME", lab.environ["BOARDLAB_RUNTIME"])
    env = Environment(config_file=str(lab.bench.folder / "am62xx_sk-2" / "env.yaml"))
    try:
        strategy = env.get_target().get_strategy()
        strategy.select_medium("emmc")
        boot_to_uboot(strategy)
        assert strategy.uboot.run_check("printenv mmcdev") == ["mmcdev=0"]
        strategy.transition("linux")
        assert strategy.shell.run("uname -s; false") == (["Linux"], [], 1)
        strategy.transition("off")
    finally:
        env.cleanup()


def test_a_strap_is_a_relay_behind_http(lab: Lab) -> None:
    url = panel(lab, f"{BOARD}/straps/bit5")
    for level in ("on", "off"):
        assert requests.put(url, data=level, timeout=5).json() == {"state": level}
        assert requests.get(url, timeout=5).json() == {"state": level}
    assert (lab.bench.folder / BOARD / "straps" / "bit5").read_text() == "0\n"
    assert requests.put(url, data="maybe", timeout=5).status_code == 400
    assert requests.get(panel(lab, f"{BOARD}/straps/bit40"), timeout=5).status_code == 404
    assert requests.get(panel(lab, "nobody/straps/bit0"), timeout=5).status_code == 404


def test_an_environment_whose_bench_is_down_says_how_to_bring_it_up(lab: Lab, tmp_path: Path) -> None:
    env = tmp_path / "envs" / "sim-am62a.yaml"
    env.parent.mkdir()
    shutil.copy(ROOT / "envs" / "sim-am62a.yaml", env)
    shutil.copytree(ROOT / "strategies", tmp_path / "strategies")
    process = lab.pytest("--lg-env", str(env))
    assert process.wait(DEADLINE_S) == pytest.ExitCode.USAGE_ERROR
    assert "(is the virtual board up? start it with: lab virtual up sim --type am62axx_sk)\n" in lab.log


@pytest.fixture
def _usual_limit_of_open_files() -> Iterator[None]:
    """As a shell has it, whatever this session was given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.longer
@pytest.mark.usefixtures("_usual_limit_of_open_files")
def test_many_boards_come_up_with_environments_a_pdu_outlet_and_tcp_ports_each(tmp_path: Path) -> None:
    words = ("--type", "am62xx_sk", "--count", str(MANY), "--time-scale", TIME_SCALE, "--tcp-port", "0")
    with running_bench(tmp_path / "bench", "sim", *words) as bench:
        boards = bench.state.boards
        assert [board.outlet for board in boards] == list(range(1, MANY + 1))
        for board in boards:
            env = yaml.safe_load((bench.folder / board.name / "env.yaml").read_text().replace("!template ", ""))
            resources = [pair for item in env["targets"]["main"]["resources"] for pair in item.items()]
            (power,) = (words for name, words in resources if name == "PDUDaemonPort")
            assert (power["pdu"], power["index"]) == (f"bench/{board.name}", 1)
            ports = [Path(words["port"]).resolve() for name, words in resources if name == "RawSerialPort"]
            assert ports == [Path(board.uarts[uart]).resolve() for uart in ("main0", "mcu")]
            assert set(board.tcp) == set(board.uarts)
        last = boards[-1]
        host, _, port = last.tcp["main0"].partition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as console:
            assert bench.power("on", f"bench/{last.name}") == 200
            said = b""
            while b"-evm login: " not in said:
                said += console.recv(4096)
        assert said.count(b"U-Boot SPL") == 2
        states = json.loads(lab_virtual("status", "--dir", bench.folder, "--json").stdout)["boards"]
        assert [state["power"] for state in states] == ["off"] * (MANY - 1) + ["on"]
        assert states[-1]["tcp"] == last.tcp


def test_another_user_reaches_neither_power_nor_consoles(tmp_path: Path) -> None:
    with running_bench(
        tmp_path / "bench", "sim", "--type", "am62xx_sk", "--time-scale", TIME_SCALE, "--tcp-port", "0"
    ) as bench:
        daemon = listening_ports(bench.child("pdudaemon.conf"))
        assert len(daemon) == 1
        ours = listening_ports(bench.state.pid)
        addresses = [bench.state.http, bench.state.pdudaemon, bench.board.iiod, *bench.board.tcp.values()]
        can = bench.board.signals["can"].rpartition("port=")[2]
        assert ours == sorted([int(can), *(int(address.partition(":")[2]) for address in addresses)])
        # Without root there is no other user to be had: who is let in by the guard finds no switch at pdudaemon's own port.
        for port in daemon + (ours if os.getuid() == 0 else []):
            for order in ("/power/control/on?hostname=bench&port=1", "/cm?cmnd=Power1%20On"):
                said = f"GET {order} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
                told = strangers.ask(f"127.0.0.1:{port}", said)
                assert not told or told.split(b" ")[1] in {b"403", b"404", b"500"}
        assert bench.status()["power"] == "off"
        assert bench.power("on") == 200
        assert bench.status()["power"] == "on"
        open_to_others = [
            path for path in (tmp_path / "bench").iterdir() if path.is_file() and path.stat().st_mode & 0o077
        ]
        assert {path.name for path in open_to_others} <= {"bench.log"}  # made by `up`, in a folder that is ours alone


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fault", BOARD, "sunspots"), "no fault 'sunspots'"),
        (("fault", BOARD, "garbled", "share=2"), "a share from 0 to 1"),
        (("fault", BOARD, "garbled", "share"), "expected NAME=VALUE"),
        (("fault", "nobody", "garbled"), "no /boards/nobody/faults"),
    ],
)
def test_a_wrong_order_is_refused_in_one_line(
    lab: Lab, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert main(["virtual", *words, "--dir", str(lab.bench.folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--type", "am62"), "no board type 'am62'"),
        (("--release", "1.0"), "has no release '1.0'"),
        (("--count", "0"), "'--count'"),
        (("--time-scale", "0"), "--time-scale"),
        (("--scenario", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
        (("--fifo-bytes", "0"), "'--fifo-bytes'"),
        (("--tcp-port", "70000"), "--tcp-port"),
        (("--tcp-port", "65533"), "--tcp-port 65533: 4 UARTs do not fit below 65535"),
    ],
)
def test_up_refuses_wrong_options_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], says: str
) -> None:
    assert main(["virtual", "up", "sim", *words, "--dir", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
