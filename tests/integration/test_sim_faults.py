"""Every fault of a simulated board ends as its documentation says: through strategy, watch, run and store.

Time is virtual, so that a hang of half a minute takes none. What is observed becomes docs/failures.md; when it changes,
BOARDLAB_WRITE_DOCS=1 writes the page anew.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import define, field
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.atlength import LONG, either
from support.section_bench import section_bench
from support.simlab import S
from support.simprovision import provisioning
from support.simruns import RETRIES, SimBench, Told, bench, planned
from support.simtarget import PDU_TIMEOUT_S

from lab.benchmarks import audio
from lab.errors import BoardTransientError
from lab.metrics import Flag
from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_TIME
from lab.results import Attempt
from virtual.sim.faults.base import Fault, FaultOutcome
from virtual.sim.faults.catalogue import FAULTS

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
WRITE = "BOARDLAB_WRITE_DOCS"
BY_CHANCE_SEEDS = range(either(2, 6))
BOARD = {
    name: kind for name, kind in FAULTS.items() if kind.outcome.trial not in {"rails", "section", "provision"}
}  # of the rails: test_rail_faults.py
PROVISION = [name for name, kind in FAULTS.items() if kind.outcome.trial == "provision"]
SECTION = [name for name, kind in FAULTS.items() if kind.outcome.trial == "section"]
SURE = [name for name, kind in BOARD.items() if not kind.outcome.may_succeed]
BY_CHANCE = [name for name, kind in BOARD.items() if kind.outcome.may_succeed]
LASTING = {"other_software"}  # a run that began with it goes on only with it
KNOWN = {failure for kind in FAULTS.values() for failure in kind.outcome.failures} | {"ok"}
KNOWN.add("too_slow")  # of two faults in one cycle


@define
class Observed:
    """What came of each fault, over all tests of this module."""

    told: dict[str, list[Attempt | Told]] = field(factory=dict)


@pytest.fixture(scope="module")
def observed() -> Observed:
    return Observed()


def trial(made: SimBench, outcome: FaultOutcome) -> Sequence[Attempt | Told]:
    """The attempts of the trial that shows a fault."""
    match outcome.trial:
        case "boot" | "off":
            return made.measure(outcome.medium)
        case "login":
            return made.bring("linux")
        case "bootloader":
            return made.bring("bootloader")
        case "suspend":
            return made.sleep()
        case _:
            raise AssertionError(f"no trial {outcome.trial!r}: say here what shows such a fault")


def check_samples(made: SimBench) -> None:
    """Every boot time is a true one within its ±; so is every time from power on, unless it says that it may not be."""
    true = made.true_boots()
    for value, uncertainty in made.samples_s():
        assert min(abs(value - boot.boot_s) for boot in true) <= uncertainty
    for sample in made.store.samples(made.run.run.id, metric=BOOT_POWER_ON.name):
        if Flag.OFF_UNVERIFIED not in sample.flags:
            assert min(abs(sample.value - boot.from_power_on_s) for boot in true) <= sample.uncertainty


def flags_of(attempt: Attempt, metric: str) -> set[str]:
    """What a number carries beside that the board is simulated."""
    (sample,) = [sample for sample in attempt.samples if sample.metric == metric]
    return set(sample.flags) - {Flag.SIMULATED}


def check_flags(attempts: Sequence[Attempt | Told], outcome: FaultOutcome) -> None:
    """The struck cycle's numbers carry the documented flags, and no number others; a board that was silent before it
    was switched off may always have been on."""
    for attempt in attempts:
        if not isinstance(attempt, Attempt) or attempt.outcome != "ok":
            continue
        struck = attempt.cycle == outcome.cycle
        flags, may = (set(outcome.flags), set(outcome.may_carry)) if struck else (set(), set())
        boot, from_power_on = (flags_of(attempt, metric) for metric in (BOOT_TIME.name, BOOT_POWER_ON.name))
        assert flags <= from_power_on
        assert from_power_on <= flags | may | {Flag.OFF_UNVERIFIED}
        if outcome.from_power_on:
            flags = set()
        assert flags <= boot <= flags | may


def check_attempt(attempt: Attempt | Told, kind: type[Fault]) -> None:
    """A failed attempt has the documented class and message, and its evidence."""
    outcome = kind.outcome
    assert attempt.outcome in outcome.failures
    assert attempt.fault == outcome.fault or not outcome.fault
    assert attempt.transient == outcome.transient
    assert len(attempt.message) > 40, "a message says what was expected, what came, and what to do next"
    if isinstance(attempt, Attempt):
        assert attempt.samples == ()
        kinds = {artifact.kind for artifact in attempt.artifacts}
        assert kinds in ({"console-log", "console-index"}, set())
        assert kinds or attempt.outcome in {"silent", "pdu_refused", "pdu_timeout", "pdu_unreachable"}


@pytest.mark.longer
@pytest.mark.parametrize("name", SURE)
def test_a_fault_ends_as_documented_and_the_next_cycle_is_clean(tmp_path: Path, observed: Observed, name: str) -> None:
    kind = FAULTS[name]
    after_a_boot, struck = kind.outcome.trial == "off", kind.outcome.cycle
    tried_again = kind.outcome.failures and kind.outcome.transient  # that is a clean power cycle, too
    cycles = 1 if tried_again and struck == 1 and not LONG else 2
    with bench(tmp_path, [planned(name, cycles=str(struck))], cycles=cycles) as made:
        attempts = trial(made, kind.outcome)
        observed.told[name] = list(attempts)
        failed = [attempt for attempt in attempts if attempt.outcome != "ok"]
        for attempt in failed:
            check_attempt(attempt, kind)
        assert len(failed) == bool(kind.outcome.failures)
        if kind.outcome.transient:
            assert attempts[-1].outcome == "ok", "the fault was gone, and the cycle was not tried again"
            assert [a.number for a in attempts if a.cycle == struck] == list(range(1, len(failed) + 2))
        else:
            assert attempts[-1].outcome != "ok"
            made.lab.board.clear_troubles()
            made.lab.run_for(60 * S)  # supplies that fall slowly have fallen
            assert made.measure()[-1].outcome == "ok", "the fault was mended, and the run did not go on"
        if kind.outcome.trial in {"boot", "off"}:
            assert len(made.samples_s()) == cycles
            assert after_a_boot or [a.outcome for a in attempts if a.cycle == 3 - struck] == ["ok"] * (cycles - 1)
        check_flags(attempts, kind.outcome)
        check_samples(made)


@pytest.mark.longer
@pytest.mark.parametrize("name", BY_CHANCE)
def test_a_fault_by_chance_ends_as_documented_or_leaves_a_true_number(
    tmp_path: Path, observed: Observed, name: str
) -> None:
    kind = FAULTS[name]
    for seed in BY_CHANCE_SEEDS:
        (tmp_path / str(seed)).mkdir()
        fault = planned(name, cycles="1", seed=seed, share=0.01 if name != "input_lost" else 0.1)
        with bench(tmp_path / str(seed), [fault]) as made:
            attempts = trial(made, kind.outcome)
            observed.told.setdefault(name, []).extend(attempts)
            for attempt in attempts:
                if attempt.outcome != "ok":
                    check_attempt(attempt, kind)
            assert attempts[-1].outcome == "ok"
            check_samples(made)


@pytest.mark.parametrize("name", SECTION)
def test_a_fault_of_a_row_costs_that_row_until_it_is_mended(tmp_path: Path, observed: Observed, name: str) -> None:
    kind, fault = FAULTS[name], planned(name, cycles="all")
    with section_bench(tmp_path, retries=RETRIES) as made:
        made.lab.board.troubles_for = lambda cycle: [fault.fault(cycle)]
        with pytest.raises(BoardTransientError, match="2 of 20 rows could not be measured") as told:
            made.run.measure(audio.SECTION)
        attempts = made.store.attempts(made.run.run.id)
        failed = [attempt for attempt in attempts if not attempt.ok]
        observed.told[name] = list(failed)
        for attempt in failed:
            assert (attempt.outcome, attempt.fault, attempt.transient) == (kind.outcome.failures[0], "board", True)
            assert attempt.params["rate_hz"] == "44100"
            assert attempt.message in str(told.value)
        tries = [a.number for a in attempts if a.params == {**a.params, "rate_hz": "44100", "direction": "capture"}]
        assert tries == list(range(1, RETRIES + 2))
        assert sum(len(attempt.samples) for attempt in attempts) == 2 * 18
        made.lab.board.clear_troubles()
        made.run.measure(audio.SECTION)
        rows = {(s.params["rate_hz"], s.params["direction"]): s.cycle for s in made.store.samples(made.run.run.id)}
        assert len(rows) == 20
        assert len(made.store.samples(made.run.run.id)) == 2 * 20, "what was there was not measured again"
        assert made.run.pending("alsa") == []


@pytest.mark.parametrize("name", PROVISION)
def test_a_fault_while_a_release_is_put_on_a_board_ends_as_documented_and_the_next_try_does_it(
    tmp_path: Path, observed: Observed, name: str
) -> None:
    kind = FAULTS[name]
    with provisioning(tmp_path, kind.outcome.medium, fault=planned(name)) as made:
        before = made.elsewhere()
        attempts = made.told()
        observed.told[name] = list(attempts)
        assert [attempt.outcome for attempt in attempts] == [*(kind.outcome.failures or ("ok",)), "ok"]
        if kind.outcome.failures:
            assert (attempts[0].fault, attempts[0].transient) == (kind.outcome.fault, kind.outcome.transient)
            assert len(attempts[0].message) > 40
        assert made.elsewhere() == before, "something was written beside the target"


GARBLED_VERSION = [
    *((12, "suspend_refused", 22), (3, "prompt_split", 0), (14, "wrong_baud", 0)),
    *((10, "login_refused", 80), (13, "no_power", 0), (1, "garbled", 80)),
]


# The same strikes each time, and some that once ended the run: the kernel's version line of the first boot was damaged.
@pytest.mark.soak
@settings(
    max_examples=10, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 14),
            st.sampled_from([name for name in FAULTS if name not in {*LASTING, *PROVISION}]),
            st.integers(0, 99),
        ),
        max_size=8,
    )
)
@example(strikes=GARBLED_VERSION)
@pytest.mark.timeout(600)
def test_ten_cycles_end_with_ten_true_samples_whatever_strikes(
    tmp_path_factory: pytest.TempPathFactory, strikes: list[tuple[int, str, int]]
) -> None:
    faults = [planned(name, cycles=str(cycle), seed=seed) for cycle, name, seed in strikes]
    with bench(tmp_path_factory.mktemp("run"), faults, cycles=10) as made:
        for _ in range(len(faults) + 1):  # a person mends what stopped the run, and resumes it
            attempts = made.measure()
            if len(made.samples_s()) == 10:
                break
            made.lab.board.clear_troubles()
            made.lab.run_for(60 * S)
        assert {attempt.outcome for attempt in attempts} <= KNOWN
        assert sorted(a.cycle for a in attempts if a.outcome == "ok") == list(range(1, 11))
        check_samples(made)


def row(kind: type[Fault], told: Sequence[Attempt | Told]) -> str:
    """A fault's row; of one by chance the documented classes, since which of them come depends on the chance."""
    outcome = kind.outcome
    failed = [attempt for attempt in told if attempt.outcome != "ok"]
    classes = outcome.failures if outcome.may_succeed else dict.fromkeys(attempt.outcome for attempt in failed)
    recorded = ", ".join(f"`{each}`" for each in classes) or (
        "it goes well" if outcome.trial == "provision" else "a sample: the number holds"
    )
    flags = ", ".join(f"`{each}`" for each in outcome.flags)
    if flags and outcome.from_power_on:
        recorded += f"; the next boot's numbers from power on carry {flags}"
    elif flags:
        recorded = f"a sample with {flags}"
    if outcome.may_succeed:
        recorded = f"a true sample, or {recorded}"
    whose = outcome.fault or ("board or lab" if outcome.failures else "")
    then = ("tried again" if outcome.transient else "the run stops") if outcome.failures else "–"
    message = "" if outcome.may_succeed or not failed else settled(failed[0].message)
    return f"| `{kind.name}` | {kind.does()} | {recorded} | {whose} | {then} | {message} |"


def settled(message: str) -> str:
    """A message without what changes from run to run."""
    message = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:16421", message)
    message = re.sub(r"/dev/pts/\d+", "/dev/ttyUSB0", message)
    message = re.sub(r"(the last it said was|The last line:) .*", r"\1 …", message)
    message = re.sub(r"\[ *\d+\.\d{6}\]", "[…]", message)  # the kernel's stamps
    message = re.sub(r"10\d{5} bytes", "1000000 bytes", message)
    message = message.replace(f"within {PDU_TIMEOUT_S:g} s", "within 30 s")
    return message.replace("|", "/")


def page(observed: Observed) -> str:
    rows = [row(BOARD[name], observed.told[name]) for name in BOARD]
    sections = [row(FAULTS[name], observed.told[name]) for name in SECTION]
    provision = [row(FAULTS[name], observed.told[name]) for name in PROVISION]
    rails = [kind for kind in FAULTS.values() if kind.outcome.trial == "rails"]
    flagged = [
        f"| `{kind.name}` | {kind.does()} | {', '.join(f'`{flag}`' for flag in kind.outcome.flags)} |"
        for kind in rails
    ]
    return "\n".join(
        [*_HEAD, *rows, *_SECTIONS, *sections, *_PROVISION, *provision, *_RAILS, *flagged, *_LAB, *_OTHERS, ""]
    )


def test_the_page_on_failures_says_what_was_observed(observed: Observed) -> None:
    assert set(observed.told) == {*BOARD, *SECTION, *PROVISION}, (
        "run this module as a whole: the page comes from all of its tests"
    )
    text = page(observed)
    if os.environ.get(WRITE):
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8").splitlines()
    different = [f"- {old}\n+ {new}" for old, new in itertools.zip_longest(written, text.splitlines()) if old != new]
    assert not different, f"write the page anew with {WRITE}=1:\n" + "\n".join(different)


_HEAD = (
    "# Failures",
    "",
    "How boardlab reports faults of a board, a line or a lab. Each row is a fault that a",
    "[simulated board](simulated-boards.md) can have. The table is written by the test that proves it",
    "(`tests/integration/test_sim_faults.py`); the messages are those of its runs, with U-Boot and Linux of the SK-AM62.",
    "",
    "A failed attempt is recorded with its class, its message and its console log, and gives no sample. After a transient",
    "failure boardlab power-cycles the board and tries again, as often as `--lab-retries` says. After any other failure the run",
    "stops, and `--lab-resume` continues it when the fault is corrected. Where the boot continues and its number is valid, but a",
    "person should look at it, the sample carries a flag ([Results](results.md)).",
    "",
    "| Fault | What goes wrong | Recorded as | Whose | Then | Message |",
    "|---|---|---|---|---|---|",
)

_SECTIONS = (
    "",
    "## Benchmarks",
    "",
    "A row of a section that fails, e.g. one sampling rate, costs that row: it is tried again as often as `--lab-retries` says,",
    "then the other rows are measured, and the test fails at its end ([Benchmarks](benchmarks.md#repetitions-and-rows)).",
    "",
    "| Fault | What goes wrong | Recorded as | Whose | Then | Message |",
    "|---|---|---|---|---|---|",
)

_PROVISION = (
    "",
    "## Releases",
    "",
    "A release is put on a board from its U-Boot, over TFTP ([Releases](releases.md)). After each of these faults the next try does it, and",
    "nothing beside the target was written.",
    "",
    "| Fault | What goes wrong | Recorded as | Whose | Then | Message |",
    "|---|---|---|---|---|---|",
)

_RAILS = (
    "",
    "## Rails",
    "",
    "A fault of a rail's sensor does not affect a boot. The measured power carries flags, see [Power](rails.md); those of",
    "this table are proved by `tests/unit/rails/test_rail_faults.py`.",
    "",
    "| Fault | What goes wrong | Flags |",
    "|---|---|---|",
)

_LAB = (
    "",
    "## The lab itself",
    "",
    "Programs of the lab are killed, disks fill up, adapters are unplugged and switches do not answer. `bench/chaos.py` does all of this to",
    "simulated boards, and `tests/integration/test_chaos.py` for a minute, five with `./run soak`; [Performance](performance.md#faults-everywhere) has its numbers.",
    "",
    "| What goes wrong | Recorded as | Whose | Then |",
    "|---|---|---|---|",
    "| `pytest` or `lab run` is killed. | no attempt | – | `--lab-resume` and `lab run --continue` go on with that cycle |",
    "| `pytest` stands still. | a sample: the stamps are the console server's |  | – |",
    "| The console server is killed. | `console_server_gone` | lab | tried again, with a new server |",
    "| The console server does not answer, or cannot be started. | `console_server_silent`, `no_console_server` | lab | tried again; the run stops where it cannot be started |",
    "| The console server that runs was started by another boardlab, and lacks something: end it with `lab console stop`. | `console_protocol` | lab | the run stops |",
    "| The console server, or the host, stands still. | a sample with a ± that covers it, or `stamps_uncertain` | lab | tried again |",
    "| Another session has the console still. | `console_busy` | lab | tried again |",
    "| Another program reads the console's port: ser2net, screen, a getty. Bytes of the board are lost to it. | `console_shared`, in place of what the missing bytes look like | lab | tried again |",
    "| The adapter is away when it is wanted, or comes and goes. | `port_missing`, `port_lost`, `port_stuck` | lab | before an attempt `lab run --wait` waits for five minutes; in one the run stops, or is tried again where it went meanwhile; where another host misses it, as for `exporter_gone` |",
    "| The console server of another host is out of reach for more than a minute: its host, ssh or the network. | `console_link` | lab | tried again; what the board said meanwhile is recorded there |",
    "| The clock of the host with the console cannot be related to that of the host with the power switch. | `clock_unrelated` | lab | tried again |",
    "| A person, or another job, has acquired the labgrid place of the board. | `place_busy` | lab | no attempt: `lab run` ends with 75 and says who |",
    "| The labgrid place of the board is released, or taken by somebody else. | `place_lost` | lab | the run stops, and leaves the power alone; `lab run` ends with 75 |",
    "| No exporter offers what the labgrid place of the board should have: its host, or `lab farm export` there, is down. | `exporter_gone` | lab | before an attempt `lab run --wait` waits for five minutes, then ends with 75; in one: tried again after 5 s, 20 s and then each 40 s, for five minutes beside all retries, then `lab run` ends with 75 |",
    "| pdudaemon is killed, or the power switch refuses connections. | `pdu_unreachable`, `pdu_refused` | lab | tried again |",
    "| The power switch hangs. | `pdu_timeout` | lab | tried again |",
    "| A strap relay refuses connections, hangs or answers with an error. | `strap_unreachable`, `strap_timeout`, `strap_refused`, `strap_failed`, `strap_mismatch` | lab | tried again |",
    "| Somebody else switches the board off. | `power_lost` where somebody knows it: the power switch, the rails, or another program of this host that did it; else `silent`, `hang_uboot`, `hang_kernel`, whose message names power | lab; else board | tried again |",
    "| The power switch obeys late, when nobody waits for it any more. | `power_off_ineffective`, or the boot is cut short: `silent`, `hang_uboot`, `hang_kernel`, `reset` | lab or board | as of that class |",
    "| The disk of the recordings is full. | a sample: it was measured from what the server passes on |  | – |",
    "| The disk of the results is full. | `artifacts`, `results`; no attempt, since none can be recorded | lab | the run stops; `--lab-resume` goes on with that cycle |",
)

_OTHERS = (
    "",
    "## Other classes",
    "",
    "What the faults above do not show. The classes of labgrid's drivers, such as `strap_timeout` and `multiplexer_failed`, are formed as",
    "[When the lab's own equipment fails](lab-failures.md) says.",
    "",
    "| What goes wrong | Recorded as | Whose | Then |",
    "|---|---|---|---|",
    "| The kernel cannot mount its root file system. | `no_root` | board | tried again |",
    "| systemd ended in its rescue or emergency mode. | `emergency_mode` | board | tried again |",
    "| U-Boot does not accept the signature of an image. | `authentication` | board | tried again |",
    "| What U-Boot loaded is no kernel. | `bad_image` | board | tried again |",
    "| The board still prints, but no prompt came within `boot_s` of its type. | `too_slow` | board | tried again |",
    "| The prompt was not answered, and the kernel wrote after it ([How boot time is measured](boot-time.md#the-prompt-and-what-looks-like-it)). | `prompt_unanswered` | board | tried again |",
    "| The times of a boot cannot be: the board spoke before it was switched on. | `impossible_times` | lab | tried again |",
    "| The lab host was suspended during a boot, or its clock jumped. | `host_suspended` | lab | tried again |",
    "| The board is not the one that the environment or earlier runs name. | `wrong_board` | lab | the run stops |",
    "| The preflight of a low-power mode, see [Low power](low-power.md#failures). | `rt_kernel`, `no_low_power`, `sleep_blocked`, `setting_refused` | board | the run stops |",
    "| A suspend or the way back from it went wrong, see the same page. | `did_not_suspend`, `rails_up`, `console_not_restored` | board | tried again |",
    "| What the board should run, or has said of its suspend, is not whole, see the same page. | `characters_lost`, `resume_lines_missing` | test | tried again |",
    "| The kernel's counters of suspends cannot be read. | `no_suspend_stats` | test | tried again |",
    "| A program's output is incomplete, or contradicts itself. | `unreadable_output` | test | tried again |",
    "| A command on the board did not end in time, or its answer came in pieces. | `command_timeout` | board | tried again, after a power cycle |",
    "| A command on the tester failed. | `tester_command_failed` | lab | tried again |",
    "| Packets are lost even at the lowest rate, or TFTP lost one while it was timed. | `link_lossy` | board or lab | tried again |",
    "| No rate without loss was found: something else than the load loses packets. | `search_unstable` | board | tried again |",
    "| IPSec would be computed by the other engine, in software or in hardware. | `wrong_engine` | board | the section ends |",
    "| U-Boot's transfer did not put back what the medium held before. | `restore_failed` | board | the section ends |",
    "| No USB adapter fits what the environment asks for. | `adapter_missing` | lab | the run stops |",
    "| The console's port may not be opened, is another program's, is not open under that name, or cannot be opened for another reason. | `port_permission`, `port_in_use`, `port_unknown`, `port` | lab | the run stops |",
    "| The console server has as many clients as it takes. | `console_full` | lab | tried again |",
    "| A defect of the console server; its log has the traceback. | `console_server_fault` | lab | the run stops |",
    "| The recording cannot be written, see [the runbook](runbooks.md#boardlabconsolenotrecorded). | `recording_broken` | lab | no attempt: the console server says it in its log, and measuring goes on |",
    "| The job gave no sign of life for a minute, and another one has its board. | `lease_lost` | lab | the run stops |",
    "| labgrid's coordinator does not answer. | `coordinator_unreachable` | lab | before an attempt `lab run --wait` waits for five minutes, then ends with 75 |",
    "| A disk of the lab host is full or broken: traces of rails, images of releases. | `disk` | lab | the run stops; tried again where an image could not be read |",
    "| The command of a `CommandOutputDriver` failed: a strap, a wake-up pin. | `output_failed` | lab | tried again |",
    "| A sensor of the rails, or its bus, does not answer, or is another chip. | `power_sensor` | lab | the run stops |",
    "| The sampler of the rails did not start, or ended on the way. | `power_sampler` | lab | tried again |",
    "| TI's Automation Interface refuses a command, or gives no rails. | `automation_interface` | lab | the run stops, or tried again |",
    "| A phase of a trace ends before it begins. | `phase` | test | the run stops |",
    "| Found by a check of the board, see [A check](lab-failures.md#a-check). | `power_on_ineffective`, `console_echo`, `rail_unread`, `rail_out_of_range` | lab | the check fails |",
    "| A release is for another board, or may not be written there; nothing was written ([Provisioning](provisioning.md#when-it-fails)). | `wrong_image_for_board`, `target_refused` | configuration | the run stops |",
    "| A file of the release is damaged, or cannot be fetched. | `image_damaged`, `image_unreachable` | lab | the run stops; tried again where it cannot be fetched |",
    "| The medium has a bad block where the release needs it, or is not seen. | `media_bad_block`, `media_missing` | board | the run stops |",
    "| A board without software did not take what was sent to it. | `recovery_failed` | board | tried again |",
    "| Something else boots than what was put on the board. | `release_mismatch` | lab | tried again |",
    "| Snagboot may not use the USB device. | `usb_refused` | lab | the run stops |",
    "| A command that nothing undoes was asked for; boardlab never issues it. | `irreversible` | test | the run stops |",
    "| Only virtual boards: the bench, a board in QEMU, the bench's pdudaemon or a TCP port of a UART could not be had. | `virtual_bench`, `virtual_board`, `pdudaemon`, `tcp_port` | lab | the run stops, or tried again |",
    "| A failure without a class of its own, by whose fault it is. | `board`, `lab`, `test`, `configuration`, `error` | as its name | as its message says |",
    "| In Prometheus: a class that is not boardlab's, e.g. of a board type of your own. | `other` | | |",
)
