"""Causes, not cells: what a comparison says in one line each, and what earlier releases add to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.guide_family import GuideText, TableText, import_guide, mini, table, write_rst

from lab.cli import main
from lab.guide import measurements
from lab.guide.check.findings import run_rules
from lab.guide.compare import causes as guide_causes
from lab.guide.compare import comparison as compare
from lab.guide.compare.causes import Cause, Kind
from lab.guide.compare.comparison import Comparison, Earlier
from lab.guide.measurements import MeasuredGuide
from lab.guide.read import reader
from lab.guide.write import comparison_page, export
from lab.judge.baseline import judge_run
from lab.judge.compare import Verdict
from lab.results.snapshot import watch
from lab.results.store import open_store

QUIET = {Verdict.NOISE, Verdict.BELOW_RESOLUTION}
NOW = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)


def text_of(release: str, *tables: TableText) -> str:
    return write_rst(GuideText(f"Linux {release} Performance Guide", tables=list(tables)))


def guide(release: str, *tables: TableText) -> MeasuredGuide:
    return measurements.of_guide(reader.parse(f"a1-{release}.rst", text_of(release, *tables)))


def causes(found: Comparison, kind: Kind) -> list[Cause]:
    return [cause for cause in guide_causes.find_causes(found) if cause.kind is kind]


# --- the five guides ------------------------------------------------------------------------------------------------------


def test_every_change_that_is_no_noise_belongs_to_exactly_one_cause(comparison: Comparison) -> None:
    told = [id(change) for cause in guide_causes.find_causes(comparison) for change in cause.changes]
    assert len(told) == len(set(told))
    assert set(told) == {id(change) for change in comparison.changes if change.verdict not in QUIET}


def test_the_dead_tunnel_is_on_top_and_new_since_the_last_guide(comparison: Comparison) -> None:
    wrong = causes(comparison, Kind.WRONG)
    assert guide_causes.find_causes(comparison)[: len(wrong)] == wrong
    assert {cause.rule for cause in wrong} == {"ipsec-broken", "udp-search-stuck", "udp-link-broken"}
    (tunnel,) = [cause for cause in wrong if cause.rule == "ipsec-broken"]
    assert not missing_facts(tunnel.what, "IPSec", "tunnel", "not")
    assert tunnel.boards == ("am62xx_sk-fs", "am62xxsip_sk-fs")
    assert not missing_facts(guide_causes.heading(Kind.WRONG, comparison.names), "wrong", "since 09.02.00")


def test_what_moved_together_is_one_cause(comparison: Comparison) -> None:
    worse = {cause.what: cause for cause in causes(comparison, Kind.WORSE)}
    assert len(worse) == 8, "of 49 numbers"
    clock = worse["OpenSSL, MultiBench"]
    assert (clock.count, clock.boards, clock.factor) == (8, ("am62xxsip_sk-fs",), "× 0.76 to 0.80")
    assert not missing_facts(clock.why, "0.87 times", "1250", "1400 MHz")
    assert worse["UDP egress packets"].count == 10, "without what stopped early, and what was sent in two frames"
    better = {cause.what: cause for cause in causes(comparison, Kind.BETTER)}
    assert better["LMBench bw_mem fwr"].count == 15
    assert better["nbench fp_emulation"].factor == "× 2.09 to 2.34"
    conditions = causes(comparison, Kind.CONDITIONS)
    assert [cause.count for cause in conditions] == [54, 78, 16]
    assert not missing_facts(conditions[1].why, "1250", "1400 MHz")


def test_known_faults_are_folded_into_one_line_each(comparison: Comparison) -> None:
    known = {cause.rule: cause for cause in causes(comparison, Kind.KNOWN)}
    assert known["lmbench-pairing"].count == 96
    assert known["lmbench-pairing"].why == "in both guides"
    assert known["raw-label"].why == "only in 11.01"
    assert len(causes(comparison, Kind.KNOWN)) == len(known)


def test_no_path_and_no_release_is_repeated_in_a_cause(comparison: Comparison) -> None:
    assert not any(path in cause.text for path in comparison.paths for cause in guide_causes.find_causes(comparison))
    assert not any("\n" in cause.text for cause in guide_causes.find_causes(comparison))


def test_what_our_rules_suspect_is_never_called_worse_or_better(
    comparison: Comparison, sheets: dict[str, MeasuredGuide]
) -> None:
    suspects = {
        (cell.board or cell.likely_board, cell.line, cell.value.text)
        for finding in run_rules(sheets["am62x-11.01.rst"])
        if finding.severity in {"suspect", "error"} and finding.rule.effect not in {"recovered", "harmless"}
        for cell in finding.cells
    }
    moved = [c for c in comparison.changes if c.verdict.moved and (c.board, c.lines[1], c.printed[1]) in suspects]
    assert len(suspects) > 50
    assert [(c.board, c.metric, dict(c.params)) for c in moved] == []


# --- built guides: rules --------------------------------------------------------------------------------------------------


def processor(factor: float, clock: float | None) -> list[TableText]:
    """The processor's benchmarks at a factor of their speed."""
    rows = [("aes-128-cbc,1024", 90_000.0), ("aes-128-cbc,16384", 140_000.0), ("sha256,1024", 120_000.0)]
    tables = [
        table("Benchmarks,a1-fs: perf", f"linpack (Kflops),{360_000 * factor:.2f}", title="Linpack Benchmarks"),
        table(
            "Benchmarks,a1-fs: perf",
            *(f"{name} (iterations),{13.0 * factor:.2f}" for name in ("assignment", "fourier", "huffman")),
            title="NBench Benchmarks",
        ),
        table("Benchmarks,a1-fs: perf", f"core (workloads/),{0.91 * factor:.2f}", title="CoreMarkPro Benchmarks"),
        table("Benchmarks,a1-fs: perf", f"lat_ops-int-div (ns),{4.29 / factor:.2f}", title="LMBench Benchmarks"),
        table("Benchmarks,a1-fs: perf", f"lat_syscall-null (us),{0.4 / factor:.2f}", title="LMBench Benchmarks"),
        table(
            "Algorithm,Buffer Size (in bytes),a1-fs: throughput (KBytes/Sec)",
            *(f"{row},{value * factor:.2f}" for row, value in rows),
            title="OpenSSL Performance",
        ),
        table("Benchmarks,a1-fs: perf", "copy (MB/s),1800.00", title="Stream"),
    ]
    if clock is not None:
        tables.append(table("Benchmarks,a1-fs: perf", f"cpu_clock (MHz),{clock:.2f}", title="Dhrystone Benchmarks"))
    return tables


def test_a_slower_clock_is_one_cause_that_says_so() -> None:
    found = compare.compare(guide("10.00", *processor(1, 1400)), guide("11.00", *processor(800 / 1400, 800)))
    (cause,) = causes(found, Kind.CONDITIONS)
    assert not missing_facts(cause.why, "800", "1400 MHz")
    assert (cause.factor, cause.count) == ("× 0.57", 11)
    assert causes(found, Kind.WORSE) == []


def test_moves_of_exchanged_columns_say_so() -> None:
    rows = [(name, 10.0 + 3 * number) for number, name in enumerate(("idea", "fourier", "huffman", "assignment"))]

    def nbench(first: float, second: float) -> TableText:
        lines = [f"{name} (iterations),{first * value:.3f},{second * value:.3f}" for name, value in rows]
        return table("Benchmarks,a1-fs: perf,b2-fs: perf", *lines, title="NBench")

    found = compare.compare(guide("11.00", nbench(1, 1.3)), guide("11.01", nbench(1.3, 1)))
    (worse,), (better,) = causes(found, Kind.WORSE), causes(found, Kind.BETTER)
    assert (worse.boards, better.boards) == (("b2-fs",), ("a1-fs",))
    for cause in (worse, better):
        assert not missing_facts(cause.why, "a1-fs", "b2-fs", "4 of 4 rows", "exchanged")


@pytest.mark.parametrize(("factor", "says"), [(1000, True), (0.001, True), (900, False)])
def test_rows_that_moved_by_the_factor_of_two_units_say_so(factor: float, says: bool) -> None:
    def latencies(times: float) -> TableText:
        rows = [f"lat_syscall-{name} (us),{times * 50:.3f}" for name in ("stat", "fstat", "open")]
        return table("Benchmarks,a1-fs: perf", *rows, title="LMBench")

    found = compare.compare(guide("11.00", latencies(1)), guide("11.01", latencies(factor)))
    (cause,) = [*causes(found, Kind.WORSE), *causes(found, Kind.BETTER)]
    assert ("another unit, 1000 times" in cause.why) is says


def test_a_number_in_another_unit_is_told_once() -> None:
    rows = ["lat_pipe (ns),5000", "pipe_latency (microsec),5"]
    sheet = guide("11.00", table("Benchmarks,a1-fs: perf", *rows, title="LMBench"))
    assert [f.rule.id for f in run_rules(sheet) if f.severity == "error"] == ["another-unit"]
    fio = table("Buffer size (bytes),a1-fs: Read EXT4 Throughput (Kbytes/sec)", "4k,44600", title="eMMC EXT4 FIO")
    assert [f.rule.id for f in run_rules(guide("11.00", fio)) if f.severity == "error"] == ["another-unit"]


def test_a_clock_that_moved_without_its_rows_explains_nothing() -> None:
    dhrystone = "Benchmarks,a1-fs: perf"
    old, new = (
        [*processor(factor, clock), table(dhrystone, f"dhrystone_per_mhz (DMIPS/MHz),{score}", title="Dhrystone")]
        for factor, clock, score in ((1, 400, 8.9), (0.75, 1250, 2.8))
    )
    found = compare.compare(guide("10.00", *old), guide("11.00", *new))
    assert causes(found, Kind.CONDITIONS) == []
    (suspect,) = causes(found, Kind.SUSPECT)
    assert (suspect.rule, suspect.count) == ("clock-alone", 2)
    assert suspect.what.startswith("cpu.clock, dhrystone.per_mhz")
    worse = causes(found, Kind.WORSE)
    assert sum(cause.count for cause in worse) == 10, "the rows themselves moved by 25 %"
    assert all("clock" not in cause.why and "MHz" not in cause.why for cause in worse)


def test_a_clock_that_check_suspects_is_no_condition_without_rows_that_confirm_it() -> None:
    def guide_of(release: str, *tables: TableText) -> MeasuredGuide:
        text = GuideText(f"Linux {release} Performance Guide", tables=list(tables))
        text.modules.append(("A1", "A1 board with ARM running at 1.4GHz"))
        return measurements.of_guide(reader.parse(f"a1-{release}.rst", write_rst(text)))

    found = compare.compare(guide_of("10.00", processor(1, 1400)[-1]), guide_of("11.00", processor(1, 400)[-1]))
    assert [cause.rule for cause in causes(found, Kind.SUSPECT)] == ["clock-contradicts"]
    assert causes(found, Kind.CONDITIONS) == []
    slower = compare.compare(guide_of("10.00", *processor(1, 1400)), guide_of("11.00", *processor(800 / 1400, 800)))
    (cause,) = causes(slower, Kind.CONDITIONS)
    assert not missing_facts(cause.why, "800", "1400 MHz"), "the modules deny it"


def test_benchmarks_that_move_alike_although_the_clock_row_does_not_are_one_cause_too() -> None:
    found = compare.compare(guide("10.00", *processor(1, 1400)), guide("11.00", *processor(800 / 1400, 1400)))
    (cause,) = causes(found, Kind.WORSE)
    assert not missing_facts(cause.why, "at 800 MHz", "both", "say 1400")
    assert cause.factors == pytest.approx((0.571, 0.571), abs=0.005)
    assert cause.count == 10, "the system call, which follows the clock, belongs to them; STREAM did not move"
    assert all(name in cause.what for name in ("OpenSSL", "nbench", "Linpack", "CoreMark-Pro"))


def test_a_wrong_total_is_on_top_and_neither_worse_nor_better() -> None:
    found = compare.compare(guide("10.00", power_of("150.00")), guide("11.00", power_of("250.00")))
    (total,) = [c for c in found.changes if c.metric == "power.total"]
    assert total.verdict is Verdict.SUSPECT
    assert "(rail-total)" in total.reason
    first = guide_causes.find_causes(found)[0]
    assert (first.kind, first.rule, first.changes) == (Kind.WRONG, "rail-total", (total,))
    known = compare.compare(guide("10.00", power_of("240.00")), guide("11.00", power_of("250.00")))
    assert guide_causes.find_causes(known)[0].kind is Kind.KNOWN


def power_of(total: str) -> TableText:
    """Rails of 150 mW in all."""
    return table(
        "Rail name,Rail voltage(V),Power (mW)",
        "vdd_core,0.85,100.00",
        "soc_dvdd_3v3,3.30,50.00",
        f"Total,-,{total}",
        title="Deep Sleep",
        chapter=["Low Power Performance"],
    )


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("400.00", "900.00", Kind.SUSPECT, "1 moved, × 2.25; suspect in both guides"),
        ("150.00", "900.00", Kind.WRONG, "1 moved, × 6.00"),
        ("900.00", "150.00", Kind.SUSPECT, "1 moved, × 0.17; suspect in the older guide only"),
    ],
)
def test_a_number_that_moved_is_told_however_long_it_is_suspect(old: str, new: str, kind: Kind, says: str) -> None:
    found = compare.compare(guide("10.00", power_of(old)), guide("11.00", power_of(new)))
    (total,) = [c for c in found.changes if c.metric == "power.total"]
    assert total.verdict is Verdict.SUSPECT
    told = guide_causes.find_causes(found)
    (cause,) = [cause for cause in told if cause.rule == "rail-total"]
    assert (cause.kind, cause.changes) == (kind, (total,))
    assert cause.why.endswith(says)
    assert "rail" in comparison_page.markdown(found), "a comment tells it, too"
    assert "no sound number" not in cause.why
    assert guide_causes.heading(Kind.SUSPECT, found.names) == "suspect"


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("10.00 (min 8.00, max 14.00)", "13.00", False),
        ("13.00", "10.00 (min 8.00, max 14.00)", False),
        ("10.00 (min 8.00, max 11.00)", "13.00", True),
    ],
)
def test_a_value_inside_the_printed_range_did_not_move(old: str, new: str, moved: bool) -> None:
    def boot(cell: str) -> TableText:
        return table(
            "Boot Configuration,a1-fs: Boot time in seconds",
            f'Linux boot time from SD,"{cell}"',
            title="Linux boot time",
        )

    (change,) = compare.compare(guide("10.00", boot(old)), guide("11.00", boot(new))).changes
    assert change.verdict.moved is moved
    assert ("lies inside the range of" in change.reason) is not moved


@pytest.mark.parametrize("row", ["Glmark2-DRM", "Glmark2-Wayland"])
def test_one_step_of_a_score_without_decimals_is_no_change(row: str) -> None:
    def scores(score: int) -> TableText:
        rows = [f"{row},{score}.00,9.00", "Glmark2-X11,7.00,8.00"]
        return table("Benchmark,a1-fs: Score,b2-fs: Score", *rows, title="Glmark2")

    changes = compare.compare(guide("10.00", scores(5)), guide("11.00", scores(6))).changes
    assert {c.verdict for c in changes} == QUIET
    assert {c.verdict for c in compare.compare(guide("10.00", scores(5)), guide("11.00", scores(7))).changes} == {
        Verdict.NOISE,
        Verdict.IMPROVEMENT,
    }


# --- more than the last release -------------------------------------------------------------------------------------------


def pipe(value: float) -> TableText:
    return table("Benchmarks,a1-fs: perf", f"lat_pipe (us),{value:.2f}", title="LMBench Benchmarks")


def series(*values: float) -> list[MeasuredGuide]:
    return [guide(f"{9 + place}.00", pipe(value)) for place, value in enumerate(values)]


def judged(*values: float) -> tuple[Verdict, str, str]:
    *before, old, new = series(*values)
    (change,) = compare.compare(old, new, earlier=compare.earlier_of(before)).changes
    return change.verdict, change.reason, change.returns_to


def test_a_change_that_only_returns_to_an_earlier_level_says_so() -> None:
    verdict, reason, returns_to = judged(30, 20, 30.5)
    assert (verdict, returns_to) == (Verdict.REGRESSION, "9.00")
    assert not missing_facts(reason, "returns", "9.00, 30 us")
    assert judged(10, 20, 30)[2] == ""
    *before, old, new = series(30, 20, 30.5)
    (cause,) = causes(compare.compare(old, new, earlier=compare.earlier_of(before)), Kind.WORSE)
    assert not missing_facts(cause.why, "returns", "level of 9.00")


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((20, 30, 20, 30), Verdict.NOISE),  # it does so each time
        ((20, 20, 30), Verdict.REGRESSION),  # two releases are not enough
        ((20, 20.2, 20.1, 30), Verdict.REGRESSION),
        ((10, 20, 20, 30), Verdict.REGRESSION),  # one step in the history is no noise
    ],
)
def test_three_earlier_releases_say_how_much_a_number_moves_by_itself(
    values: Sequence[float], verdict: Verdict
) -> None:
    found, reason, _ = judged(*values)
    assert found is verdict
    assert ("last 3 releases differ" in reason) is (verdict is Verdict.NOISE)


def test_small_steps_of_one_direction_that_add_up_are_a_cause_of_their_own() -> None:
    verdict, reason, _ = judged(20, 23, 26, 29)
    assert verdict is Verdict.REGRESSION
    assert not missing_facts(reason, "1.45 times 9.00", "steps")
    assert "in steps" not in judged(20, 30, 26, 29)[1]
    *before, old, new = series(20, 23, 26, 29)
    found = compare.compare(old, new, earlier=compare.earlier_of(before))
    (cause,) = causes(found, Kind.WORSE)
    assert not missing_facts(cause.why, "small steps since 9.00")
    assert export.comparison_document(found)["rows"][0]["crept_from"] == "9.00"


def test_another_definition_is_no_history() -> None:
    """MCU Only is entered another way from release to release."""

    def power(value: float) -> TableText:
        rows = [f"vdd_core,0.85,{value / 2:.2f}", f"soc_dvdd_3v3,3.30,{value / 2:.2f}", f"Total,-,{value:.2f}"]
        return table(
            "Rail name,Rail voltage(V),Power (mW)", *rows, title="MCU Only", chapter=["Low Power Performance"]
        )

    sheets = [
        guide(r, power(v)) for r, v in (("9.00", 300), ("9.01", 100), ("9.02", 300), ("11.00", 100), ("11.01", 300))
    ]
    (total,) = [
        c
        for c in compare.compare(*sheets[3:], earlier=compare.earlier_of(sheets[:3])).changes
        if c.metric == "power.total"
    ]
    assert (total.verdict, total.returns_to) == (Verdict.REGRESSION, "")


def test_the_store_s_earlier_releases_are_looked_at_and_the_exporter_s_judge_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "results.db")
    monkeypatch.setenv("LAB_DB", url)
    with open_store(url) as store:
        for release, value in (("9.00", 30), ("10.00", 20), ("11.00", 30.5), ("10.00-rt", 31), ("12.00", 20)):
            path = tmp_path / f"{release}.rst"
            path.write_text(text_of(release, pipe(value)))
            import_guide(store, path, release, None, NOW)
        last = store.runs(1)[0]
    assert main(["guide", "compare", "10.00", "11.00"]) == 0
    out = capsys.readouterr().out
    assert "with a look at 9.00\n" in out
    assert not missing_facts(out, "returns", "level of 9.00")
    assert main(["guide", "compare", "11.00", "12.00", "--json"]) == 0
    assert '"verdict": "0 worse, 0 better, 1 noise"' in capsys.readouterr().out
    with watch(url).snapshot() as snapshot:
        (number,) = judge_run(snapshot, last.id, against="11.00").numbers
    assert number.judgement.verdict is Verdict.NOISE
    assert not missing_facts(number.judgement.reason, "last 3 releases")


def test_a_guide_of_the_real_time_kernel_is_held_against_its_own_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "results.db")
    with open_store(url) as store:
        for release, value in (("9.00", 40), ("9.00-rt", 30.5)):
            path = tmp_path / f"{release}.rst"
            path.write_text(text_of(release, pipe(value)))
            import_guide(store, path, release, None, NOW)
    old, new = tmp_path / "a1-10.00-rt.rst", tmp_path / "a1-11.00-rt.rst"
    old.write_text(text_of("10.00", pipe(20)))
    new.write_text(text_of("11.00", pipe(30)))
    assert main(["guide", "compare", str(old), str(new), "--db", url]) == 0
    out = capsys.readouterr().out
    assert "with a look at 9.00-rt" in out
    assert not missing_facts(out, "returns", "level of 9.00-rt")
    nameless = tmp_path / "a1.rst"
    nameless.write_text(mini(pipe(20), title="Linux Performance Guide"))
    assert main(["guide", "compare", str(nameless), str(new), "--db", url]) == 2
    said = capsys.readouterr().err
    assert f"{nameless}: " in said
    assert "leave --db out" in said
    assert main(["guide", "compare", str(nameless), str(new)]) == 0


@pytest.mark.parametrize(
    ("title", "file", "release"),
    [
        ("RT-linux 09.03 Performance Guide", "a1.rst", "09.03-rt"),
        ("Linux 09.03 Performance Guide", "a1_09.03_rt.rst", "09.03-rt"),
        ("Linux 09.03 Performance Guide", "a1-09.03.rst", "09.03"),
        ("Linux Performance Guide", "a1-rt.rst", None),
    ],
)
def test_one_rule_says_which_kernel_a_guide_is_of(title: str, file: str, release: str | None) -> None:
    found = reader.parse(file, mini(pipe(20), title=title))
    assert found.kernel_release == release
    if release is not None:
        assert evolve(found, release="09.03", release_source="given").kernel_release == "09.03"


def test_guides_before_the_two_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for release, value in (("9.00", 30), ("10.00", 20), ("11.00", 30.5)):
        files.append(tmp_path / f"a1-{release}.rst")
        files[-1].write_text(mini(pipe(value), title=f"Linux {release} Performance Guide"))
    assert main(["guide", "compare", *map(str, files)]) == 0
    assert not missing_facts(capsys.readouterr().out, "returns", "level of 9.00")
    assert main(["guide", "compare", *map(str, files[1:])]) == 0
    assert "only returns" not in capsys.readouterr().out


def test_many_earlier_releases_are_named_by_the_first_and_the_last() -> None:
    found = compare.compare(*series(20, 20), earlier=Earlier(names=("7.0", "8.0", "8.1", "8.2")))
    assert found.looked_at == "4 releases, 7.0 to 8.2"
    assert compare.compare(*series(20, 20), earlier=Earlier(names=("7.0", "8.0"))).looked_at == "7.0, 8.0"


def test_the_judge_and_the_causes_agree_on_what_another_clock_is() -> None:
    """1 % is more than readings of one clock differ by, so both take it for another one; 0.4 % is not, so neither does."""
    for clock, differs in ((1386.0, True), (1395.0, False)):
        found = compare.compare(guide("10.00", *processor(1, 1400)), guide("11.00", *processor(0.5, clock)))
        (cause,) = causes(found, Kind.WORSE)
        assert (f"per clock, which is {clock:g} instead of 1400 MHz" in cause.why) is differs
        assert all(("per clock" in change.reason) is differs for change in cause.changes)
        (row,) = [change for change in found.changes if change.metric == "cpu.clock"]
        assert (row.verdict is Verdict.CONDITIONS_CHANGED) is differs


def test_two_clocks_that_are_one_explain_nothing() -> None:
    found = compare.compare(guide("10.00", *processor(1, 1400.2)), guide("11.00", *processor(0.5, 1399.8)))
    (cause,) = causes(found, Kind.WORSE)
    assert not missing_facts(cause.why, "CPU ran at 700 MHz")


def test_without_earlier_releases_nothing_is_said_of_them() -> None:
    olds, news = (guide(name, *processor(factor, 1400)) for name, factor in (("10.00", 1), ("11.00", 0.5)))
    assert compare.compare(olds, news, earlier=Earlier()) == compare.compare(olds, news)
    assert compare.compare(olds, news).looked_at == ""
