"""What each mutation does to a boot, and which numbers are right then."""

from __future__ import annotations

import re
from functools import cache
from random import Random

import numpy as np
import pytest
import torture_damage as damage
from support.atlength import either
from support.torture_boots import good
from torture_boot import (
    KERNEL_TIME,
    POWER,
    GoodBoot,
    Mutated,
    events,
    held,
    joined,
    queued,
    recorded,
    shuffled,
    typed,
)
from torture_damage import KINDS, DamageKind, mutate

from lab.benchmarks.boot import START
from lab.console import Chunk, Event, Lateness
from lab.console.model import Suspended

CASES = either(80, 400)  # of one kind, to find among them what a test is about
S, MS = 1_000_000_000, 1_000_000

pytestmark = pytest.mark.longer


@pytest.fixture(scope="module")
def boot() -> GoodBoot:
    return good()


def said(found: tuple[Event, ...]) -> bytes:
    return b"".join(event.data for event in found if isinstance(event, Chunk))


@cache
def made(kind: DamageKind) -> list[Mutated]:
    return [kind(good(), Random(seed)) for seed in range(CASES)]


def cases(kind: DamageKind, what: str) -> list[Mutated]:
    """The cases of a kind whose description matches."""
    found = [mutated for mutated in made(kind) if re.search(what, mutated.what)]
    assert found, f"no case in {CASES} is {what!r}"
    return found


def boot_s(truth: Mutated) -> float:
    return (truth.truth_ns["login"] - truth.truth_ns[START]) / S


def good_s(boot: GoodBoot) -> float:
    truth = boot.truth(boot.tape)
    return (truth["login"] - truth[START]) / S


def test_a_tape_of_a_recording_gives_the_recording_back(boot: GoodBoot) -> None:
    found = events(boot.tape)
    assert events(recorded(found, boot.timing)) == found
    assert said(found).endswith(b"login: ")


def test_the_marks_of_a_good_boot_are_where_its_number_says(boot: GoodBoot) -> None:
    data = boot.tape.data
    assert data[: boot.at[START]].endswith(b"Starting kernel ...")
    assert data[: boot.at["login"]].endswith(b"am62xx-evm login: ")
    assert good_s(boot) == pytest.approx(boot.number.value, abs=1e-6)


def test_what_is_queued_behind_an_insertion_comes_no_faster_than_the_line_brings_it() -> None:
    byte_ns = 100
    tape = queued(
        joined(typed(b"abc", 0, byte_ns, 16), typed(b"def", 0, byte_ns, 16), typed(b"g", 5000, byte_ns, 16)), 100
    )
    assert tape.t_ns.tolist() == [100, 200, 300, 400, 500, 600, 5100]


def test_a_server_that_stands_still_reads_late_all_at_once_and_knows_it() -> None:
    tape = joined(*(typed(b"x" * 16, at * 10 * MS, 1000, 16) for at in range(1000)))
    found = events(held(tape, 1 * S, 8 * S, 7 * S - 20 * MS, 1 << 16))
    late = [event for event in found if isinstance(event, Lateness)]
    reads = [event for event in found if isinstance(event, Chunk) and 1 * S <= event.t_ns < 8 * S + 10 * MS]
    assert [event.lateness_ns for event in late] == [7 * S - 20 * MS]
    assert [len(event.data) for event in reads[:3]] == [4096, 4096, 11200 - 2 * 4096]
    assert [event.t_ns - 8 * S for event in reads[:3]] == [0, 40_000, 80_000]
    assert said(found) == tape.data


def test_what_the_kernel_cannot_keep_while_the_server_stands_still_is_lost() -> None:
    tape = joined(*(typed(b"x" * 16, at * 10 * MS, 1000, 16) for at in range(1000)))
    assert len(said(events(held(tape, 1 * S, 8 * S, 0, 4096)))) == len(tape) - (11200 - 4096)


def test_a_read_whose_end_is_lost_ends_with_what_is_left_of_it() -> None:
    tape = joined(typed(b"abcd", 0, 100, 16), typed(b"efgh", 1000, 100, 16))
    left = tape.without(np.array([c not in b"dh" for c in tape.data]))
    assert [(e.t_ns, e.data) for e in events(left) if isinstance(e, Chunk)] == [(300, b"abc"), (1300, b"efg")]


def test_a_board_that_pauses_boots_later_and_its_kernel_says_so(boot: GoodBoot) -> None:
    middle = next(offset for offset in boot.pauses if offset > boot.at["init"])
    tape = boot.later(middle, 2 * S)
    assert boot.truth(tape)["login"] - boot.truth(boot.tape)["login"] == 2 * S
    assert boot.truth(tape)[START] == boot.truth(boot.tape)[START]
    before, after = (KERNEL_TIME.findall(data, middle) for data in (boot.tape.data, tape.data))
    assert {int(late[0]) - int(early[0]) for early, late in zip(before, after, strict=True)} == {2}


def test_a_kernel_that_has_not_begun_knows_nothing_of_a_pause(boot: GoodBoot) -> None:
    tape = boot.later(boot.at["autoboot"], 2 * S)
    assert tape.data == boot.tape.data
    assert good_s(boot) == pytest.approx((boot.truth(tape)["login"] - boot.truth(tape)[START]) / S)


def test_a_busy_host_or_a_server_that_stands_still_changes_no_truth(boot: GoodBoot) -> None:
    for mutated in (*cases(damage.delay, "busy"), *cases(damage.stall, "server")):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert any(isinstance(event, Lateness) for event in mutated.events) or said(mutated.events) == boot.tape.data


def test_a_suspended_host_has_stamps_that_are_too_close_and_a_record_of_it(boot: GoodBoot) -> None:
    for mutated in cases(damage.stall, "is suspended"):
        (stood,) = (event for event in mutated.events if isinstance(event, Suspended))
        assert boot_s(mutated) == pytest.approx(good_s(boot))
        last = boot.tape.t_ns[-1] - (stood.missing_ns if stood.t_ns <= mutated.events[-1].t_ns else 0)
        assert mutated.events[-1].t_ns <= max(last, stood.t_ns)


def test_a_paused_machine_leaves_no_record(boot: GoodBoot) -> None:
    for mutated in cases(damage.stall, "virtual machine"):
        assert not any(isinstance(event, Suspended | Lateness) for event in mutated.events)
        assert boot_s(mutated) == pytest.approx(good_s(boot))


def test_lost_bytes_change_no_truth(boot: GoodBoot) -> None:
    for mutated in cases(damage.drop, "^lost"):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert len(said(mutated.events)) < len(boot.tape)


def test_a_step_that_the_board_left_out_makes_its_boot_shorter(boot: GoodBoot) -> None:
    for mutated in cases(damage.drop, "saved"):
        saved_s = float(re.findall(r"([\d.]+) s saved", mutated.what)[0])
        assert boot_s(mutated) == pytest.approx(good_s(boot), abs=1e-3) or boot_s(mutated) == pytest.approx(
            good_s(boot) - saved_s, abs=2e-3
        )


def test_garbled_bytes_change_no_truth_and_no_number_of_bytes(boot: GoodBoot) -> None:
    for mutated in cases(damage.garble, "."):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert len(said(mutated.events)) == len(boot.tape)


def test_a_packet_that_is_handed_on_twice_takes_no_time(boot: GoodBoot) -> None:
    for mutated in cases(damage.repeat, "handed on twice"):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert len(said(mutated.events)) > len(boot.tape)


def test_lines_that_are_printed_twice_take_their_time(boot: GoodBoot) -> None:
    later = [boot_s(mutated) - good_s(boot) for mutated in cases(damage.repeat, "printed")]
    assert min(later) >= -0.1
    assert max(later) > 0


def test_a_recording_that_ends_early_has_no_truth_of_what_came_after(boot: GoodBoot) -> None:
    for mutated in cases(damage.cut, "ends"):
        assert "login" not in mutated.truth_ns
        assert boot.tape.data.startswith(said(mutated.events))


def test_a_recording_that_begins_late_has_the_truth_of_all(boot: GoodBoot) -> None:
    for mutated in cases(damage.cut, "begins"):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert boot.tape.data.endswith(said(mutated.events))


def test_other_line_ends_keep_the_text(boot: GoodBoot) -> None:
    for mutated in cases(damage.line_ends, "."):
        assert re.sub(rb"[\r\n]+", b"", said(mutated.events)) == re.sub(rb"[\r\n]+", b"", boot.tape.data)


def test_after_a_reset_only_the_last_boot_counts_and_nothing_from_power_on(boot: GoodBoot) -> None:
    for mutated in cases(damage.splice, "reset"):
        at, begin = map(int, re.findall(r"reset at (\d+) to (\d+)", mutated.what)[0])
        if at < boot.at["spl"] or not boot.tape.data[begin:at].strip().count(b"\n"):
            assert POWER in mutated.truth_ns
        else:
            assert POWER not in mutated.truth_ns
            assert "uboot" not in mutated.truth_ns
        if begin < boot.at[START]:
            assert boot_s(mutated) == pytest.approx(good_s(boot))
        else:
            assert START not in mutated.truth_ns


def test_a_text_like_the_prompt_and_a_damaged_prompt_leave_the_prompt_where_it_was(boot: GoodBoot) -> None:
    for mutated in cases(damage.prompt, "a text like"):
        assert said(mutated.events).count(boot.prompt.encode()) == 2
        assert boot_s(mutated) > good_s(boot) + 0.4
    for mutated in cases(damage.prompt, "damaged"):
        assert said(mutated.events).count(boot.prompt.encode()) == 1
        assert boot_s(mutated) == pytest.approx(good_s(boot))


def test_an_inserted_text_delays_what_comes_behind_it_and_is_no_moment_itself(boot: GoodBoot) -> None:
    for mutated in cases(damage.insert, "^at "):
        assert boot_s(mutated) >= good_s(boot) - 0.2
        assert set(mutated.truth_ns) == set(boot.truth(boot.tape))
        assert len(said(mutated.events)) > len(boot.tape)


def test_what_is_printed_behind_the_prompt_changes_no_truth(boot: GoodBoot) -> None:
    for mutated in cases(damage.insert, "^behind"):
        assert mutated.truth_ns == boot.truth(boot.tape)
        assert said(mutated.events).startswith(boot.tape.data)


def test_what_changes_places_takes_its_moment_along(boot: GoodBoot) -> None:
    line, end = boot.line_of(boot.at[START]), boot.line_after(boot.at[START])
    following = boot.line_after(end)
    tape = shuffled(boot.tape, [(end, following), (line, end)])
    assert tape.data[line:following] == boot.tape.data[end:following] + boot.tape.data[line:end]
    assert boot.truth(tape)[START] > boot.truth(boot.tape)[START]


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_the_same_whenever_it_is_repeated(boot: GoodBoot, kind: str) -> None:
    assert mutate(boot, kind, 7) == mutate(boot, kind, 7)
    assert mutate(boot, kind, 7) != mutate(boot, kind, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_stamps_never_go_back(kind: str) -> None:
    for mutated in made(KINDS[kind]):
        times = [event.t_ns for event in mutated.events]
        assert times == sorted(times)


def test_an_empty_tape_is_an_empty_recording() -> None:
    assert events(typed(b"", 0, 1, 1)) == ()
    assert recorded((), good().timing).data == b""
