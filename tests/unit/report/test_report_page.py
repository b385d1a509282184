"""The report of a recorded run of 3 media × 20 cycles: one page, offline, from which each number leads to its evidence."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean

import pytest
from attrs import define, evolve, field, frozen
from support.facts import missing_facts
from support.recorded_run import START, record

from lab.cli import main
from lab.judge.baseline import judge_run
from lab.metrics import ALL, Measurement, by_name
from lab.metrics.catalogue import published
from lab.metrics.limits import Limit
from lab.report import render
from lab.report.names import Names, title_of
from lab.report.view import comparison, judge_against
from lab.results import AttemptRecord, Run, SampleRecord, open_store
from lab.results.formatting import export_csv
from lab.results.listing import Overview, overview
from lab.results.records import LIMITS
from lab.results.snapshot import watch

VOID = {"meta", "br", "link", "img", "input", "hr"}


@define(slots=False)
class Page(HTMLParser):
    """What a browser would see of a page."""

    ids: list[str] = field(factory=list)
    attributes: list[tuple[str, str, str]] = field(factory=list)
    tags: list[str] = field(factory=list)
    mistakes: list[str] = field(factory=list)
    _open: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, text: str) -> Page:
        page = cls()
        page.feed(text)
        page.close()
        page.mistakes += [f"<{tag}> is never closed" for tag in page._open]
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.mistakes.append(f"</{tag}> closes nothing, line {self.getpos()[0]}")


@frozen
class Report:
    """A rendered run."""

    database: Path
    run: Run
    text: str
    page: Page

    def rows(self, heading: str) -> list[list[str]]:
        """The body rows of the table under a heading, as texts."""
        section = self.text.partition(f"{heading}</h2>")[2].partition("</section>")[0]
        body = section.partition("<tbody>")[2].partition("</tbody>")[0]
        return [
            [
                " ".join(re.sub(r"<[^>]*>", " ", cell).split())
                for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
            ]
            for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
        ]

    def block(self, attempt_id: int) -> str:
        """The evidence of one attempt."""
        return self.text.partition(f'<details id="attempt-{attempt_id}"')[2].partition("</details>")[0]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("report") / "results.db"
    with open_store(str(path)) as store:
        run = record(store)
        text = render(overview(store, run.id), store.artifacts)
    return Report(path, run, text, Page.of(text))


def test_the_page_is_well_formed_and_its_ids_are_unique(report: Report) -> None:
    assert report.page.mistakes == []
    assert len(report.page.ids) == len(set(report.page.ids))


def test_the_page_asks_nothing_of_any_network(report: Report) -> None:
    assert "script" not in report.page.tags
    assert set(report.page.tags).isdisjoint({"link", "img", "iframe", "object", "embed", "base"})
    links = [v for _, name, v in report.page.attributes if name in {"href", "src"} and v[:1] != "#"]
    assert [v.partition(",")[0] for v in links] == ["data:text/csv;base64", "data:application/json;base64"]
    assert set(re.findall(r"url\((.)", report.text)) <= {"#"}
    assert "@import" not in report.text
    assert "://" not in report.text
    policy = next(v for tag, name, v in report.page.attributes if name == "content" and "default-src" in v)
    assert "default-src 'none'" in policy


def test_every_link_leads_somewhere(report: Report) -> None:
    targets = {value[1:] for _, name, value in report.page.attributes if name == "href" and value[0] == "#"}
    targets |= set(re.findall(r"url\(#([^)]+)\)", report.text))
    assert targets
    assert targets <= set(report.page.ids)


def test_the_title_names_board_release_run_and_the_head_the_date(report: Report) -> None:
    title = re.search(r"<title>(.*?)</title>", report.text)
    assert title is not None
    assert not missing_facts(title[1], "Boot time", "QEMU virt", "virtual board", "11.01", "run 1")
    assert f'<time datetime="{report.run.started_at.isoformat()}">' in report.text


def test_the_boot_table_has_the_guides_cells_and_their_statistics(report: Report) -> None:
    with open_store(str(report.database)) as store:
        samples = store.samples(1, "boot.time")
    rows = report.rows("Boot time")
    assert [row[0] for row in rows] == ["SD (virtio-blk)", "eMMC (NVMe)", "OSPI (CFI flash)"]
    for row, medium in zip(rows, ("sd", "emmc", "ospi"), strict=True):
        values = [s.value for s in samples if s.params["medium"] == medium]
        places = len(row[3].partition(".")[2])  # the digits of the ± beside it
        average, least, most = (f"{value:.{places}f}" for value in (fmean(values), min(values), max(values)))
        assert row[1] == f"{average} (min {least}, max {most})"
        assert row[2] == "20/20"
        assert float(row[4]) == pytest.approx(sorted(values)[9:11][0], abs=0.02)
    assert [row[-1] for row in rows] == ["medium unverified, simulated", "simulated", "medium unverified, simulated"]


def test_each_cell_leads_to_its_cycles_and_each_cycle_to_its_log(report: Report) -> None:
    section = report.text.partition("Boot time</h2>")[2].partition("</section>")[0]
    assert re.findall(r'<td data-label="[^"]+"><a href="#(cycles-\w+)">\d', section) == [
        "cycles-sd",
        "cycles-emmc",
        "cycles-ospi",
    ]
    evidence = report.text.partition('id="cycles-emmc"')[2].partition("<h3")[0]
    assert [int(n) for n in re.findall(r"<summary>cycle (\d+)", evidence)] == [1, 2, 3, 3, 3, *range(4, 21)]
    with open_store(str(report.database)) as store:
        attempt = next(a for a in store.attempts(1) if a.params == {"medium": "emmc"} and a.cycle == 5)
    block = report.block(attempt.id)
    sample = next(s for s in attempt.samples if s.metric == "boot.time")
    assert f"{sample.value:.4f} ± 0.0001 s" in block.partition("</summary>")[0]
    assert f"{sample.log_start}–{sample.log_end}" in block
    assert f"<mark>{sample.log_start:8} Starting kernel ...</mark> <b>starting_kernel " in block


def test_failed_attempts_say_class_fault_and_message_and_lead_to_their_log(report: Report) -> None:
    rows = report.rows("Failed attempts")
    assert [row[:5] for row in rows] == [
        ["SD (virtio-blk)", "hang_kernel", "the board", "2", "7 , 15"],
        ["eMMC (NVMe)", "silent", "the board", "1", "3"],
        ["eMMC (NVMe)", "wrong_medium", "the lab", "1", "3"],
    ]
    assert not missing_facts(rows[2][5], "wrong medium")
    with open_store(str(report.database)) as store:
        hung, silent = (next(a.id for a in store.attempts(1) if a.outcome == o) for o in ("hang_kernel", "silent"))
    assert f'href="#log-{hung}">7</a>' in report.text
    assert "Starting kernel ..." in report.block(hung)
    assert "No console log was kept." in report.block(silent)


def test_equal_messages_of_a_failed_run_stand_once_with_their_number_and_commands_as_code(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        run = store.begin_run("boot", "am62xx_sk", "b1", "11.01", plan={}, provenance={})
        texts = ["no answer <b>: see `lab env straps`"] * 11 + ["another one"]
        for cycle, text in enumerate(texts, start=1):
            attempt = AttemptRecord(cycle, 1, {"medium": "sd"}, "wrong_medium", "lab", True, text, START, 6.0)
            store.record_attempt(run.id, attempt)
        store.finish_run(run.id, "failed")
        page = render(overview(store, run.id), store.artifacts)
    rows = page.partition('<h2 id="failed">')[2].partition("</section>")[0]
    assert rows.count("no answer") == 1
    assert "no answer &lt;b&gt;: see <code>lab env straps</code>" in rows
    assert re.findall(r'data-label="times">(\d+)<', rows) == ["11", "1"]
    assert "12 of 12 attempts failed" in rows
    assert "`" not in page.partition('<h2 id="evidence">')[0].partition("<body>")[2]


def test_what_a_board_prints_cannot_become_part_of_the_page(report: Report) -> None:
    assert "clk: &lt;b&gt;probing&lt;/b&gt; ^[[2J^[]0;owned^G" in report.text
    assert "<b>probing" not in report.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", report.text)


def test_names_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        record(store, cycles=1)
        whole = overview(store, 1)
        run = evolve(whole.run, board="<script>alert(1)</script>", board_type="a$b$<dfn>", release='"><img src=x>')
        text = render(Overview(run, whole.attempts, whole.measurements), store.artifacts)
    page = Page.of(text)
    assert page.mistakes == []
    assert set(page.tags).isdisjoint({"script", "img", "dfn"})
    assert "a$b$&lt;dfn&gt;" in text


def test_a_virtual_board_is_marked_and_a_real_one_is_not(report: Report, tmp_path: Path) -> None:
    assert "virtual board: QEMU virt" in report.text.partition("<main>")[0]
    with open_store(str(tmp_path / "real.db")) as store:
        run = record(store, cycles=2, virtual=False)
        text = render(overview(store, run.id), store.artifacts)
    assert "virtual board" not in text
    assert "Boot time of AM62x SK" in text
    assert "OSPI NOR (xSPI)" in text


def test_the_figures_show_every_cycle_every_failure_and_every_stage(report: Report) -> None:
    cycles, stages = (
        report.text.partition(f'id="{name}"')[2].partition("</section>")[0] for name in ("cycles", "stages")
    )
    panels = cycles.split('<h3 class="c')[1:]
    assert [panel.partition(">")[2].partition("<")[0] for panel in panels] == [
        "SD (virtio-blk), s", "eMMC (NVMe), s", "OSPI (CFI flash), s",
    ]  # fmt: skip
    for panel, flagged, failed in zip(panels, (1, 0, 1), (2, 2, 0), strict=True):
        assert panel.count('<g class="dot">') == 20 - flagged
        assert panel.count('<g class="dot flagged">') == flagged
        assert panel.count('class="cross"') == failed
        (bins,) = [part for part in panel.split("<svg ") if 'class="bin"' in part]
        assert max(float(width) for width in re.findall(r'width="([\d.]+)%"', bins)) > 50
    for stage in ("Power on to U-Boot", "Kernel load", "User space"):
        assert stages.count(f'<th scope="row">{stage}</th>') == 3
    assert stages.count('<i style="left: ') == 3 * 7


def test_a_dot_is_where_its_number_is(report: Report) -> None:
    with open_store(str(report.database)) as store:
        values = [s.value for s in store.samples(1, "boot.time") if s.params["medium"] == "sd"]
    panel = report.text.partition('<h3 class="c0">')[2].partition("<h3")[0]
    ticks = [
        (float(text), float(y) - 4) for y, text in re.findall(r'y="([\d.]+)" text-anchor="end">([\d.]+)</text>', panel)
    ]
    (low, low_y), *_, (high, high_y) = ticks
    dots = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)%" cy="([\d.]+)"', panel)]
    assert len(dots) == len(values) == 20
    assert [x for x, _ in dots] == sorted(x for x, _ in dots)
    for value, (_, y) in zip(values, dots, strict=True):
        assert y == pytest.approx(low_y + (value - low) / (high - low) * (high_y - low_y), abs=0.3)


def test_a_dot_leads_to_its_log_inside_the_fold(report: Report) -> None:
    with open_store(str(report.database)) as store:
        attempt = next(a for a in store.attempts(1) if a.params == {"medium": "emmc"} and a.cycle == 5)
    assert re.search(rf'<a href="#log-{attempt.id}" [^>]*"eMMC \(NVMe\), cycle 5: ', report.text)
    assert f'<p id="log-{attempt.id}">' in report.block(attempt.id)
    with open_store(str(report.database)) as store:
        silent = next(a for a in store.attempts(1) if a.outcome == "silent")
    assert re.search(rf'<a href="#log-{silent.id}" [^>]*eMMC \(NVMe\), cycle 3: silent', report.text)


def test_its_numbers_are_inside_for_other_programs(report: Report) -> None:
    links = [v for _, name, v in report.page.attributes if name == "href" and v.startswith("data:")]
    table, document = (base64.b64decode(link.partition(",")[2]).decode() for link in links)
    with open_store(str(report.database)) as store:
        run = overview(store, 1)
    assert table == export_csv([run])
    assert len(json.loads(document)["runs"][0]["attempts"]) == len(run.attempts)


def test_the_contents_lead_to_each_part(report: Report) -> None:
    contents = report.text.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'href="#([^"]+)"', contents) == [
        "boot.time", "boot.power_on_to_prompt", "cycles", "stages", "failed", "evidence", "provenance",
    ]  # fmt: skip
    assert "Failed attempts (4)" in contents


def test_a_number_that_moved_within_the_run_is_named_with_the_hosts_load_beside_it(report: Report) -> None:
    def slower(measurement: Measurement) -> Measurement:
        """From cycle 10 on by 30 %, on one medium."""
        factor = 1.3 if measurement.params.get("medium") == "ospi" else 1.0
        samples = (evolve(s, value=s.value * (factor if s.cycle >= 10 else 1.0)) for s in measurement.samples)
        return evolve(measurement, samples=tuple(samples))

    with open_store(str(report.database)) as store:
        run = overview(store, 1)
        busy = [evolve(a, details={**a.details, "host_busy": 0.85 if a.cycle >= 10 else 0.2}) for a in run.attempts]
        assert "moved within the run" not in report.text
        text = render(Overview(run.run, busy, [slower(m) for m in run.measurements]), store.artifacts)
    (said,) = re.findall(r"<strong>moved within the run</strong> (.*?)</p>", text)
    assert not missing_facts(said, "OSPI (CFI flash)", "cycle 10", "median")
    assert re.search(r"\(\+(2\d|3\d)\.\d %\)", said)
    assert not missing_facts(said, "20 % busy before", "85 % after")
    assert re.search(r"<h3[^>]*>Host busy, %", text)
    assert text.count('class="busy"') == 3 * 19
    assert text.count('class="changed"') == 1
    assert "85 % busy meanwhile" in text


def test_the_provenance_and_the_definitions_are_there(report: Report) -> None:
    facts = dict(row for row in report.rows("Provenance") if len(row) == 2)
    assert facts["clock"] == "CLOCK_MONOTONIC_RAW"
    assert facts["plan.media"] == "sd, emmc, ospi"
    assert facts["images_sha256.kernel"] == "ab" * 32
    assert not missing_facts(facts["boot.time"], "definition 1", "last byte")


def test_the_page_says_what_the_uncertainty_is(report: Report) -> None:
    assert report.text.count("95 % confidence") == 1


def test_the_same_run_gives_the_same_page(report: Report) -> None:
    with open_store(str(report.database)) as store:
        assert render(overview(store, 1), store.artifacts) == report.text


def test_the_page_stays_small_however_long_the_logs_are(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = record(store, cycles=1)
        attempts = store.attempts(run.id)
        short = len(render(overview(store, run.id), store.artifacts))
        noise = b"".join(b"[%12.6f] noise\r\n" % n for n in range(20_000))
        ref = store.artifacts.put(noise, kind="console-log")
        wide = evolve(attempts[0].samples[0], log_start=0, log_end=len(noise))
        loud = [evolve(a, artifacts=(ref,), samples=(wide, *a.samples[1:])) for a in attempts]
        whole = overview(store, run.id)
        text = render(Overview(whole.run, loud, whole.measurements), store.artifacts)
    assert len(text) < short + 3 * 40_000
    assert re.search(r"… \d+ lines left out …", text)


def test_a_damaged_log_is_said_so_in_its_place(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = record(store, cycles=2)
        path = store.artifacts.path(store.attempts(run.id)[0].artifacts[0].sha256)
        path.chmod(0o644)
        path.write_bytes(b"?")
        text = render(overview(store, run.id), store.artifacts)
    assert f"artifact {path} is damaged" in text
    assert text.count("<mark>") == 7 * 5  # the moments in the five other logs


def test_a_verdict_over_no_number_is_not_good(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={})
        store.finish_run(run.id, "completed")
        with store.snapshot() as snapshot:
            assert comparison(judge_run(snapshot, run.id, None), Names(run)).state == "plain"


def test_a_run_without_numbers_says_so(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = store.begin_run("boot", "am62xx_sk", "0042", "11.01", plan={}, provenance={})
        store.finish_run(run.id, "failed")
        text = render(overview(store, run.id), store.artifacts)
    assert Page.of(text).mistakes == []
    assert not missing_facts(text, "not complete", "no attempt", "number", "No attempt was made.")
    assert not missing_facts(text, "not complete")
    assert 'id="verdict"' not in text
    assert "<svg" not in text


def test_the_command_writes_the_page_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("a.db") as store:
        run = overview(store, record(store, cycles=1).id)
        with watch("a.db").snapshot() as snapshot:
            page = render(run, store.artifacts, judge_against(snapshot, 1, None))
    assert main(["report", "1", "--db", "a.db"]) == 0
    assert main(["report", "1", "-o", "other.html", "--db", "a.db"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/boardlab-run-1.html\n{tmp_path}/other.html\n"
    assert (tmp_path / "boardlab-run-1.html").read_text(encoding="utf-8") == page
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == page


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run 1, and run 2 of release 11.02 with everything 30 % slower."""
    path = tmp_path_factory.mktemp("two") / "results.db"
    with open_store(str(path)) as store:
        for label, factor in (("11.01", 1.0), ("11.02", 1.3)):
            run = store.begin_run("boot", "qemu-virt", "virt-1", label, plan={}, provenance={"virtual": True})
            for cycle in range(1, 7):
                jitter = 1 + 0.001 * (cycle % 3)
                samples = (
                    sample("boot.time", {}, 3.0 * factor * jitter),
                    sample("boot.stage", {"stage": "Kernel"}, 2.0 * factor * jitter),
                    sample("boot.stage", {"stage": "User space"}, 1.0 * jitter),
                )
                store.record_attempt(
                    run.id, AttemptRecord(cycle, 1, {"medium": "sd"}, "ok", None, None, "", START, 9.0, samples)
                )
            store.finish_run(run.id, "completed")
    return path


def sample(metric: str, params: dict[str, str], value: float) -> SampleRecord:
    return SampleRecord(metric, {"medium": "sd", **params}, value, 0.0001, frozenset({"simulated"}))


@pytest.mark.parametrize("words", [(), ("--against", "11.01"), ("--against", "1")])
def test_the_verdict_comes_first_and_the_stages_tell_what_moved(
    two_runs: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert main(["report", "2", *words, "-o", str(tmp_path / "a.html"), "--db", str(two_runs)]) == 0
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert Page.of(text).mistakes == []
    body = text.partition("<main>")[2]
    assert body.lstrip().startswith('<section>\n<h2 id="verdict">')
    said = body.partition("</section>")[0]
    assert not missing_facts(said, "<strong>2 worse", "1 unchanged</strong>")
    (row,) = re.findall(r'<tr class="bad"><th scope="row">(Boot time, .*?)</tr>', said, re.DOTALL)
    assert "3.0030 ± " in row
    assert "3.9039 ± " in row
    assert re.search(r"\+30 % \(\+2\d % to \+3\d %\)", row)
    assert ">regression</td>" in row
    cycles = text.partition('id="cycles"')[2].partition("</section>")[0]
    (then,) = re.findall(r'<line class="before" .*?y1="([\d.]+)"', cycles)
    (now,) = re.findall(r'<line class="mean" .*?y1="([\d.]+)"', cycles)
    assert 0 < float(now) < float(then) < 112, "slower is higher"
    assert not missing_facts(cycles, "average of run 1")
    stages = text.partition('id="stages"')[2].partition("</section>")[0]
    assert re.search(r'>2\.60\d</td><td class="difference beyond worse">\+0\.60\d ± 0\.\d+</td>', stages)
    assert re.search(r'>1\.00\d</td><td class="difference">0\.000 ± 0\.\d+</td>', stages)
    assert not missing_facts(stages, "run 1", "11.01")


def test_a_first_run_has_nothing_to_be_compared_with(two_runs: Path, tmp_path: Path) -> None:
    assert main(["report", "1", "-o", str(tmp_path / "a.html"), "--db", str(two_runs)]) == 0
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert not missing_facts(text, '"mark plain"><strong>3 ', "nothing to compare")
    assert "<tbody>" not in text.partition('id="verdict"')[2].partition("</section>")[0]
    assert "± at 95 %, are to run" not in text
    assert 'class="before"' not in text


def test_new_numbers_among_others_are_named(two_runs: Path, tmp_path: Path) -> None:
    with open_store(str(two_runs)) as store:
        run = store.begin_run("boot", "qemu-virt", "virt-1", "11.03", plan={}, provenance={"virtual": True})
        for cycle in range(1, 7):
            jitter = 1 + 0.001 * (cycle % 3)
            on_sd = sample("boot.time", {}, 3.9 * jitter)
            for medium in ("sd", "emmc"):
                samples = (evolve(on_sd, params={"medium": medium}),)
                store.record_attempt(
                    run.id, AttemptRecord(cycle, 1, {"medium": medium}, "ok", None, None, "", START, 9.0, samples)
                )
        store.finish_run(run.id, "completed")
    assert main(["report", str(run.id), "--against", "2", "-o", str(tmp_path / "a.html"), "--db", str(two_runs)]) == 0
    said = (tmp_path / "a.html").read_text(encoding="utf-8").partition('id="verdict"')[2].partition("</section>")[0]
    assert not missing_facts(said, "New: ", "Boot time", "eMMC (NVMe)")
    assert not missing_facts(said, "<strong>2 not measured", "1 with nothing", "1 unchanged</strong>")
    assert not missing_facts(said, "Not measured:", "Kernel, SD (", "User space, SD (")
    assert "<tbody>" not in said


def test_a_number_that_was_measured_once_has_no_spread(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = record(store, cycles=1)
        text = render(overview(store, run.id), store.artifacts)
    assert "(min " not in text
    assert '<th scope="col">p95</th>' not in text
    assert 'id="cycles"' not in text


def test_low_power_is_told_by_its_modes(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "a.db")) as store:
        run = store.begin_run("low_power", "am62xx_sk", "0042", "11.01", plan={}, provenance={})
        for cycle in (1, 2):
            for mode in ("deep_sleep", "mcu_only"):
                params = {"mode": mode, "wake": "rtc"}
                samples = (SampleRecord(f"lpm.{mode}.resume_kernel", params, 90.0 + cycle, 0.1),)
                store.record_attempt(
                    run.id, AttemptRecord(cycle, 1, params, "ok", None, None, "", START, 9.0, samples)
                )
        text = render(overview(store, run.id), store.artifacts)
    tiles = text.partition('class="tiles"')[2].partition("</section>")[0]
    assert re.findall(r'<span class="name">(.*?)</span> <span', tiles) == [
        "Deep sleep, wake rtc",
        "MCU only, wake rtc",
    ]
    assert "mode=" not in text.partition('id="provenance"')[0]
    assert not missing_facts(text, "not ended")


def test_a_run_of_something_else_is_not_compared(
    two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(two_runs)) as store:
        other = store.begin_run("low_power", "qemu-virt", "virt-1", "11.01", plan={}, provenance={})
    words = ["report", "2", "--against", str(other.id), "-o", str(tmp_path / "a.html"), "--db", str(two_runs)]
    assert main(words) == 2
    assert not missing_facts(capsys.readouterr().err, "same kind", "board type")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("boot.time", "Boot time"),
        ("boot.power_on_to_prompt", "Power on to prompt"),
        ("lpm.mcu_only.resume_kernel", "MCU only, resume kernel"),
        ("ethernet.tcp.cpu_load", "Ethernet, TCP, CPU load"),
        ("openssl.throughput", "OpenSSL, throughput"),
    ],
)
def test_a_metric_is_called_by_a_name_that_no_other_has(name: str, title: str) -> None:
    assert title_of(by_name(name)) == title
    every = (*ALL, *published())
    assert len({title_of(metric) for metric in every}) == len({metric.name for metric in every})


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["2"], 2, "error: no run 2; the latest are: 1 (boot"),
        (["1", "--against", "7"], 2, "error: --against 7: no other run 7; `lab results list` shows the runs"),
        (["1", "--against", "1"], 2, "error: --against 1: no other run 1"),
        (["1", "--against", "9.9"], 2, "error: board 'qemu-1' has no other completed boot run of release '9.9'"),
        (["1", "-o", "missing/a.html"], 2, "error: cannot write missing/a.html: No such file or directory"),
    ],
)
def test_what_goes_wrong_is_one_line(
    report: Report, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert main(["report", *words, "--db", str(report.database)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(says)
    assert said.err.count("\n") == 1


def test_limits_and_failure_rates_stand_on_the_page_broken_ones_first(tmp_path: Path) -> None:
    limits = {"boot.time": [Limit(max=0.5).document(), Limit("spread", max=9.0).document()]}
    with open_store(str(tmp_path / "results.db")) as store:
        run = record(store, finish=False)
        store.record_attempt(
            run.id,
            AttemptRecord(
                cycle=21,
                number=1,
                params={"medium": "sd"},
                outcome="ok",
                fault=None,
                transient=None,
                message="",
                started_at=START,
                duration_s=1.0,
                samples=(SampleRecord("boot.time", {"medium": "sd"}, 2.5, 0.001),),
                details={LIMITS: limits},
            ),
        )
        page = render(overview(store, run.id), store.artifacts)
    table = page[page.index('<h2 id="limits">') :]
    table = table[: table.index("</table>")]
    assert re.findall(r'class="verdict">(\w+)<', table) == ["fail", "pass"]
    assert "at most 0.5 s" in table
    assert "at most 9 s" in table
    head = page[: page.index("<nav")]
    assert "at most 0.5 s" in head, "a broken limit is first"
    assert "2 of 23: 8.7 %" in page
