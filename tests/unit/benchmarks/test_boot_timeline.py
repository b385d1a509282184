"""Which readings of a boot the evidence leaves: of boots drawn at random, none is wrong beyond its ± without a flag."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve
from support.atlength import either
from support.random_boots import HEALTHY, MANNERS, SICK, Machine, case, measured, run_of, two_gettys
from support.random_boots import PROMPT as PROMPT_TEXT

from lab.benchmarks.boot.records import START
from lab.benchmarks.boot.timeline import (
    KNOWN,
    PROMPT,
    STEP_S,
    TimeLine,
    TimeLineJudgement,
    TimeLineVerdict,
    Usual,
    bare_samples,
    judge,
    learn,
    moments_out_of_place,
    place_in,
)
from lab.metrics import Flag, Moment, SampleRecord
from lab.metrics.catalogue import BOOT_STAGE, BOOT_TIME

CASES = either(40, 20_000)
OTHERS = (5, 19)  # good boots of the run: of six cycles, of twenty
# Shares of boots that nothing tells from good ones: the real prompt comes just when a look-alike's answer is due; a kernel
# lived less than 0.1 s and printed nothing; few other boots happened to be alike, although the getty waits for other jobs
LEFT = {
    "lookalike": 0.0005,
    "second_kernel": 0.0002,
    "second_kernel_without_times": 0.0002,
    "second_kernel_in_steps": 0.0002,
    "then_quiet": 0.0003,
    "lost_in_answer": 0.001,
    "lost_in_spread": 0.004,
}
# Of good boots: a kernel with hardly another line that the log shows as its own, and a console that it registers late; a
# board that does not say how often its getty was started; a ± beyond a tenth of the boot
FLAGGED = {
    "early_warning": 0.4,
    "busy_line": 0.05,
    "shown_before": 0.7,
    "two_gettys": 0.08,
    "log_again": 0.1,
    "slow_answer": 0.6,
}


@pytest.mark.longer
@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("kind", SICK)
def test_no_number_is_wrong_beyond_its_uncertainty_without_a_flag(kind: str, others: int) -> None:
    outcomes = {seed: case(kind, seed, others) for seed in range(CASES)}
    wrong_s = {seed: outcome.wrong_s for seed, outcome in outcomes.items() if outcome.wrong_s}
    assert len(wrong_s) <= LEFT.get(kind, 0.0) * CASES, wrong_s


@pytest.mark.parametrize(("seed", "others"), [(303127, 19), (315914, 5), (316966, 5), (317805, 5)])
def test_a_quote_some_milliseconds_from_a_stages_lost_text_is_covered(seed: int, others: int) -> None:
    assert case("torn_stage", seed, others).wrong_s == 0.0


@pytest.mark.parametrize("seed", [700649, 720125, 720153, 720194])
def test_few_boots_that_are_alike_do_not_make_a_gettys_delay_sure(seed: int) -> None:
    assert case("lost_in_spread", seed, 5).wrong_s == 0.0


def test_a_start_that_came_again_is_covered_although_a_line_waited_as_long() -> None:
    assert case("start_again", 730186, 5).wrong_s == 0.0


@pytest.mark.parametrize("seed", [236, 487, 521, 603])
def test_times_in_ticks_that_two_kernels_share_do_not_show_that_the_first_one_runs(seed: int) -> None:
    assert case("second_kernel_in_steps", seed, 5).failure in {"reset", "second_kernel"}


@pytest.mark.longer
@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("kind", HEALTHY)
def test_good_boots_are_neither_refused_nor_flagged(kind: str, others: int) -> None:
    outcomes = [case(kind, seed, others) for seed in range(CASES)]
    assert sum(bool(outcome.failure) for outcome in outcomes) <= 0.002 * CASES
    assert sum(bool(outcome.flags) for outcome in outcomes) <= FLAGGED.get(kind, 0.01) * CASES
    assert max(outcome.wrong_s for outcome in outcomes) == 0


@pytest.mark.longer
@pytest.mark.parametrize("kind", MANNERS)
def test_an_images_manner_is_no_doubt_once_it_is_usual(kind: str) -> None:
    outcomes = [outcome for seed in range(CASES // 4) for outcome in run_of(kind, seed, 8)[KNOWN:]]
    assert sum(bool(outcome.flags) for outcome in outcomes) <= FLAGGED.get(kind, 0.01) * len(outcomes)
    assert all(not outcome.failure and not outcome.wrong_s for outcome in outcomes)


@pytest.mark.parametrize("lost", [0, 1])
def test_one_of_two_gettys_prompts_that_is_lost_is_noticed(lost: int) -> None:
    for seed in range(CASES // 8):
        machine, documents = Machine(random.Random(f"two_gettys:{seed}")), list[Mapping[str, Any]]()
        for _ in range(5):
            measured(two_gettys(machine), documents)
        boot = two_gettys(machine)
        at = [number for number, said in enumerate(boot.said) if PROMPT_TEXT in said.data][lost]
        boot.said[at] = evolve(boot.said[at], came=b"\r\n")
        assert not measured(boot, documents).wrong_s


@pytest.mark.longer
@pytest.mark.parametrize(
    "kind", ["second_kernel", "second_kernel_without_times", "then_quiet", "kexec", "shell_in_place"]
)
def test_a_run_of_which_every_boot_is_sick_has_no_number_without_a_flag(kind: str) -> None:
    outcomes = [outcome for seed in range(CASES // 4) for outcome in run_of(kind, seed, 6)]
    assert [outcome.wrong_s for outcome in outcomes if outcome.wrong_s] == []


def test_boots_that_differ_by_more_than_a_boot_time_may_be_unsure_tell_nothing_of_each_other() -> None:
    start = Moment("starting_kernel", 0, 0, 100, "Starting kernel ...")
    bare = [SampleRecord(BOOT_TIME.name, {}, 5.0, 0.001, frozenset(), 81, 900)]
    for spread_s, is_sure in ((0.02, True), (0.6, False)):
        known = {**usual(), "zero": Usual(1.0, spread_s, 4 * spread_s)}
        line = TimeLine(zero=1.0, getty=1.0)
        judgement = TimeLineJudgement(line, judge(line, known))
        covered = judgement.covered(bare, [start], 900)
        assert (covered == bare) == is_sure
        assert (Flag.UNCERTAIN not in covered[0].flags) == is_sure
        assert bare_samples(covered, judgement.document(bare)) == bare


def test_a_busy_host_that_slows_the_bootloader_as_much_makes_no_start_unsure() -> None:
    line = TimeLine(zero=1.0, getty=1.0, stages={"on uboot": 0.4, "uboot starting_kernel": 1.0})
    known = {
        "zero": Usual(1.0, 0.3, 1.2),
        "getty": Usual(1.0, 0.01, 0.04),
        "uboot starting_kernel": Usual(1.0, 0.9, 4),
    }
    for spread_s, is_blind in ((0.002, True), (0.16, False)):
        verdict = judge(line, {**known, "on uboot": Usual(0.4, spread_s, 4 * spread_s)})
        assert (START in verdict.reach_s) == is_blind


def test_a_boot_beside_which_no_others_are_known_says_so() -> None:
    for kind in ("healthy", *SICK):
        outcome = case(kind, 1, KNOWN - 1)
        assert outcome.failure or Flag.NOT_CROSS_CHECKED in outcome.flags


def usual(middle_s: float = 1.0, reach_s: float = 0.04) -> dict[str, Usual]:
    return {name: Usual(middle_s, 0.01, reach_s) for name in ("zero", "getty")}


def test_a_damaged_prompt_from_before_the_prompts_program_may_be_that_of_one_before() -> None:
    verdict = judge(TimeLine(zero=1.0, getty=1.0, drawn=(-2.5,)), usual())
    assert Flag.PROMPT_REPEATED in verdict.flags
    assert verdict.reach_s[PROMPT] == pytest.approx(3.5)
    assert Flag.PROMPT_REPEATED not in judge(TimeLine(zero=1.0, getty=1.0, drawn=(0.5,)), usual()).flags


def test_what_is_usual_is_learned_from_most_boots_and_a_few_sick_ones_change_little() -> None:
    dice = random.Random(1)
    good = [1.0 + dice.uniform(-0.005, 0.005) for _ in range(9)]
    clean, spoiled = Usual.of(good), Usual.of([*good, 2.5, 4.0, 0.1])
    assert clean is not None
    assert spoiled is not None
    assert clean.middle_s == pytest.approx(spoiled.middle_s, abs=0.004)
    assert all(2 * STEP_S <= known.reach_s < 0.06 for known in (clean, spoiled))
    assert Usual.of(good[: KNOWN - 1]) is None


def test_the_fewer_boots_are_known_the_less_is_excluded() -> None:
    reaches = [Usual.of(([0.9, 1.0, 1.1] * count)[: 3 * count]) for count in (1, 2, 6)]
    assert [usual.reach_s for usual in reaches if usual] == sorted((u.reach_s for u in reaches if u), reverse=True)


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        (TimeLine(zero=1.0, getty=1.0), set()),
        (TimeLine(zero=1.0, getty=1.0, open=True), set()),  # what came behind it makes it no other text
        (TimeLine(zero=1.0, getty=1.0, drawn=(0.3,)), set()),  # before the getty prompts
        (TimeLine(zero=1.0, getty=1.03, drawn=(0.98,)), {Flag.PROMPT_REPEATED}),
        (TimeLine(zero=1.0, getty=1.1), {Flag.PROMPT_REPEATED}),
        (TimeLine(zero=1.0, getty=0.9), {Flag.PROMPT_REPEATED}),
        (TimeLine(zero=1.1, getty=1.0), {Flag.FLOW_UNVERIFIED}),
        (TimeLine(zero=1.0, getty=1.0, second=True), {Flag.FLOW_UNVERIFIED}),
        (TimeLine(zero=0.9, getty=1.0), set()),  # nothing prints it behind the kernel's start
        (TimeLine(zero=1.0), {Flag.NOT_CROSS_CHECKED}),
        (TimeLine(zero=1.0, open=True), {Flag.NOT_CROSS_CHECKED, Flag.PROMPT_REPEATED}),
        (TimeLine(getty=1.0), set()),  # of a flow that does not count from the kernel's start
    ],
)
def test_a_reading_that_is_left_beside_the_likeliest_is_named(line: TimeLine, flags: set[Flag]) -> None:
    assert judge(line, usual()).flags == flags


def test_the_kernels_lines_take_their_time_of_a_prompts() -> None:
    late = [TimeLine(zero=1.0, getty=1.1, busy=busy_s) for busy_s in (None, 0.03, 0.08, 0.5)]
    verdicts = [judge(line, usual()) for line in late]
    assert [Flag.PROMPT_REPEATED in verdict.flags for verdict in verdicts] == [True, True, False, False]
    assert [verdict.reach_s[PROMPT] for verdict in verdicts] == [pytest.approx(0.12)] * 4
    assert Flag.PROMPT_REPEATED in judge(TimeLine(zero=1.0, getty=0.9, busy=0.5), usual()).flags


@pytest.mark.parametrize(
    ("line", "flags", "start_s", "prompt_s"),
    [
        (TimeLine(zero=1.3, getty=0.7, way=0.1), {Flag.FLOW_UNVERIFIED, Flag.PROMPT_REPEATED}, 0.32, 0.32),
        (TimeLine(zero=1.3, getty=0.7, way=0.4), set(), 0.32, 0.32),  # its clock was read .3 s before
        (TimeLine(zero=1.0, getty=1.0, way=0.4), set(), 0.0, 0.34),  # or not: then the prompt is late
        (TimeLine(zero=1.6, getty=0.4, way=0.4), {Flag.FLOW_UNVERIFIED, Flag.PROMPT_REPEATED}, 0.62, 0.62),
        (TimeLine(zero=1.0, getty=1.3, way=0.4), {Flag.PROMPT_REPEATED}, 0.0, 0.64),
        (TimeLine(zero=1.0, getty=1.0, way=0.01), set(), 0.0, 0.0),
    ],
)
def test_a_slow_answer_tells_the_kernels_time_0_only_so_well(
    line: TimeLine, flags: set[Flag], start_s: float, prompt_s: float
) -> None:
    verdict = judge(line, {**usual(), "way": Usual(0.1, 0.005, 0.02)})
    assert verdict.flags == flags
    assert verdict.reach_s.get(START, 0.0) == pytest.approx(start_s)
    assert verdict.reach_s.get(PROMPT, 0.0) == pytest.approx(prompt_s)


@pytest.mark.parametrize(("getty_s", "reach_s"), [(1.0, 1.2), (1.2, 1.4), (0.8, 1.4)])
def test_a_prompt_may_be_lost_and_drawn_again_within_a_gettys_own_spread(getty_s: float, reach_s: float) -> None:
    line = TimeLine(zero=1.0, getty=getty_s)
    wide, tight = ({**usual(), "getty": Usual(1.0, s, 4 * s)} for s in (0.3, 0.02))
    assert judge(line, wide).reach_s[PROMPT] == pytest.approx(reach_s)
    assert judge(TimeLine(zero=1.0, getty=1.0), tight).reach_s == {}


def test_texts_like_the_prompt_that_most_boots_have_are_an_images_manner() -> None:
    line = TimeLine(zero=1.0, getty=1.0, drawn=(0.9, 0.99))
    plain = TimeLine(zero=1.0, getty=1.0)
    for others, flagged in (([line] * 3 + [plain] * 2, False), ([line] * 3 + [plain] * 3, True)):
        verdict = judge(evolve(line, drawn=(0.9, 0.98)), {**learn(others), **usual()})
        assert (Flag.PROMPT_REPEATED in verdict.flags) == flagged
        assert verdict.reach_s[PROMPT] == pytest.approx(0.02 if flagged else 0.1)  # no getty prompts as soon as .9
    known = {**learn([line] * 5), **usual()}
    assert Flag.PROMPT_REPEATED in judge(evolve(line, drawn=(0.9, 1.2)), known).flags
    lacking = judge(plain, known)  # the first one may be lost
    assert Flag.PROMPT_REPEATED in lacking.flags
    assert 0.1 <= lacking.reach_s[PROMPT] <= 0.13


@pytest.mark.parametrize(("again", "flagged"), [(3.0, False), (None, True), (2.0, True)])
def test_a_bootloaders_text_that_comes_again_in_most_boots_is_an_images_manner(
    again: float | None, *, flagged: bool
) -> None:
    menus, plain = [TimeLine(1.0, 1.0, again=3.0)] * 4, [TimeLine(1.0, 1.0)] * 4
    line = TimeLine(1.0, 1.0, again=again)
    assert (Flag.FLOW_UNVERIFIED in judge(line, learn(menus)).flags) == flagged
    assert (Flag.FLOW_UNVERIFIED in judge(line, learn([*menus, *plain])).flags) == (again is not None)


@pytest.mark.parametrize(("tries", "flagged"), [(1.0, False), (0.0, True), (2.0, True)])
def test_a_bootloader_that_tries_more_places_than_usual_may_have_booted_another_slot(
    tries: float, *, flagged: bool
) -> None:
    documents = [TimeLine(tries=1.0).document()] * 5
    known = {**usual(), **learn(map(TimeLine.of_document, documents))}
    assert (Flag.FLOW_UNVERIFIED in judge(TimeLine(1.0, 1.0, tries=tries), known).flags) == flagged


def test_an_answer_that_comes_later_than_usual_may_have_come_by_itself() -> None:
    known = {**usual(), "answer": Usual(0.005, 0.001, 0.02)}
    flags = [judge(TimeLine(1.0, 1.0, answer_s), known).flags for answer_s in (0.01, 0.4)]
    assert flags == [frozenset(), {Flag.PROMPT_REPEATED}]


@pytest.mark.parametrize(
    ("late_s", "flagged"), [(0.01, False), (0.03, False), (0.08, True), (1.4, True), (-0.6, True)]
)
def test_the_uncertainty_reaches_back_to_what_is_usual(late_s: float, *, flagged: bool) -> None:
    verdict = judge(TimeLine(1.0, 1.0 + late_s), usual())
    assert verdict.reach_s.get(PROMPT, 0) >= abs(late_s) or abs(late_s) <= 0.02
    assert (Flag.PROMPT_REPEATED in verdict.flags) == flagged
    start = judge(TimeLine(1.0 + late_s, 1.0), usual())
    assert start.reach_s.get(START, 0) == verdict.reach_s.get(PROMPT, 0)
    assert (Flag.FLOW_UNVERIFIED in start.flags) == (flagged and late_s > 0)


@pytest.mark.parametrize(("sooner_s", "least_s", "most_s"), [(0.0, 0.0, 0.03), (0.06, 0.06, 0.09)])
def test_a_start_is_early_by_no_more_than_the_load_before_it_is_shorter(
    sooner_s: float, least_s: float, most_s: float
) -> None:
    """A busy host slows the kernel's entry; a start that was said before takes from the load what the entry gains."""
    load = "uboot starting_kernel"
    known = {"zero": Usual(0.6, 0.02, 0.1), load: Usual(1.0, 0.004, 0.02)}
    line = TimeLine(0.66, stages={load: 1.0 - sooner_s, "starting_kernel first_printk": 0.3})
    assert least_s <= judge(line, known).reach_s.get(START, 0.0) <= most_s
    late = TimeLine(0.54, stages={load: 1.0 + sooner_s})  # a text that came again, behind the first one
    assert least_s <= judge(late, known).reach_s.get(START, 0.0) <= most_s
    flagged = judge(evolve(line, zero=0.8), known)  # a second kernel leaves the load as it is
    assert Flag.FLOW_UNVERIFIED in flagged.flags
    assert flagged.reach_s[START] >= 0.2


@pytest.mark.parametrize(
    ("begun_s", "flagged", "reach_s"),
    [(1.0, False, 0.04), (0.99, False, 0.05), (1.03, True, 0.42), (1.4, True, 0.42), (None, True, 0.42)],
)
def test_a_kernel_that_lost_ticks_began_when_its_first_line_says(
    begun_s: float | None, reach_s: float, *, flagged: bool
) -> None:
    known = {**usual(), "begun": Usual(1.0, 0.01, 0.04)}
    verdict = judge(TimeLine(zero=1.4, getty=1.0, begun=begun_s), known)
    assert (Flag.FLOW_UNVERIFIED in verdict.flags) == flagged
    assert verdict.reach_s[START] == pytest.approx(reach_s)


STAGES = {"on uboot": 0.4, "uboot starting_kernel": 1.0, "starting_kernel first_printk": 0.3}
KERNEL_STAGES = {"first_printk init kernel": 0.0, "init login": 2.0}


@pytest.mark.parametrize(
    ("off_s", "moved"),
    [
        ({}, {}),
        ({"uboot starting_kernel": 0.5}, {}),  # a slow stage moves all behind it
        ({"uboot starting_kernel": 0.5, "starting_kernel first_printk": 0.4}, {}),
        ({"uboot starting_kernel": 0.5, "starting_kernel first_printk": -0.5}, {}),  # the kernel's time 0 tells that
        ({"on uboot": -0.1, "uboot starting_kernel": 0.1}, {"uboot": 0.1}),
        ({"first_printk init kernel": 0.6, "init login": -0.6}, {"init": 0.6}),
        ({"first_printk init kernel": -0.6, "init login": 1.8}, {}),
        ({"starting_kernel first_printk": 0.6, "first_printk init kernel": -0.6}, {"first_printk": 0.6}),
    ],
)
def test_a_stages_text_that_came_from_elsewhere_moves_against_its_neighbours(
    off_s: dict[str, float], moved: dict[str, float]
) -> None:
    dice = random.Random(1)
    stages = {**STAGES, **KERNEL_STAGES}
    lines = [TimeLine(stages={n: s + dice.gauss(0, 0.002) for n, s in stages.items()}) for _ in range(9)]
    line = TimeLine(stages={name: length_s + off_s.get(name, 0) for name, length_s in stages.items()})
    reach_s = judge(line, learn(lines)).reach_s
    assert reach_s.keys() == moved.keys()
    assert all(moved[name] <= reach_s[name] <= moved[name] + 0.05 for name in moved)


def test_a_text_out_of_place_may_stand_for_one_that_makes_either_stage_as_long_as_usual() -> None:
    lines = [TimeLine(stages=STAGES, places={"uboot": "a", START: f"{boot}"}) for boot in range(5)]
    line = TimeLine(
        stages={**STAGES, "on uboot": 0.41, "uboot starting_kernel": 1.3}, places={"uboot": "b", START: "x"}
    )
    assert moments_out_of_place(line, lines) == {"uboot"}  # the other one differs in healthy boots, too
    assert 0.3 <= judge(line, learn(lines), moments_out_of_place(line, lines)).reach_s["uboot"] <= 0.35
    assert judge(line, learn(lines)).reach_s == {}
    assert moments_out_of_place(evolve(line, quoted=("init",)), lines[:2]) == {"init"}  # too few to compare with


def test_numbers_and_noise_do_not_displace_a_text_and_other_neighbours_do() -> None:
    lines = ["", "U-Boot SPL 2023.01 (x)", "", "U-Boot 2023.01 (x)", "DRAM:  2 GiB", "Loading 4711 bytes"]
    assert place_in(["\xff\x80U-Boot SPL 2024.10 (x)", "", "U-Boot 2022.7 (x)", "DRAM:  1 GiB"], 2) == place_in(
        lines, 3
    )
    for other in (
        ["U-Boot SPL 1.0 (x)", "U-Boot 1.0 (x)", "DRAM:  1 GiB"],
        [*lines[:3], "log: U-Boot 1.0 (x)", *lines[4:]],
    ):
        assert place_in(other, 3 if len(other) > 3 else 1) != place_in(lines, 3)
    assert place_in([*lines[:3], "U-Boot 2023.01 (x)", "U-Boot 2023.01 (x)"], 3) != place_in(lines, 3)


def test_a_verdict_widens_the_numbers_that_begin_or_end_there_and_can_be_taken_back() -> None:
    start = Moment("starting_kernel", 0, 0, 100, "Starting kernel ...")
    positions = [
        (BOOT_TIME, 81, 900),
        (BOOT_STAGE, 50, 100),
        (BOOT_STAGE, 100, 300),
        (BOOT_STAGE, 300, 900),
        (BOOT_STAGE, 0, 50),
    ]
    bare = [SampleRecord(m.name, {}, 5.0, 0.001, frozenset({"simulated"}), *at) for m, *at in positions]
    judgement = TimeLineJudgement(
        TimeLine(),
        TimeLineVerdict(frozenset({Flag.PROMPT_REPEATED}), {START: 0.1, PROMPT: 0.7}),
        frozenset({"prompt_repeated"}),
    )
    covered = judgement.covered(bare, [start], 900)
    assert [sample.uncertainty for sample in covered] == [0.7, 0.1, 0.1, 0.7, 0.001]
    of_user = Moment("mine", 0, 0, 100, "...")  # ends at the same byte
    assert judgement.covered(bare, [start, of_user], 900) == covered
    assert [Flag.UNCERTAIN in sample.flags for sample in covered] == [True, False, False, True, False]
    assert all("prompt_repeated" in sample.flags for sample in covered)
    assert bare_samples(covered, judgement.document(bare)) == bare


def test_a_time_line_is_kept_with_its_boot() -> None:
    line = TimeLine(0.25, 1.02, 0.004, tries=0.0, drawn=(0.5,), open=True, second=True, stages={"on uboot": 0.4})
    line = evolve(line, places={"uboot": "00c0ffee"}, quoted=("init",))
    assert TimeLine.of_document({**line.document(), "boot_id": "x"}) == line
    assert TimeLine.of_document({"getty": "garbage"}) == TimeLine()
    assert learn([line] * 2) == {}
    assert set(learn([line] * 3)) == {"zero", "getty", "answer", "tries", "drawn 0", "on uboot"}
