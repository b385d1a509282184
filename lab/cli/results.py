"""`lab results`: what was measured, and the evidence behind each number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from attrs import asdict

from lab.cli.options import Database, FarmFile, HostDatabase, Json, OutputFolder, RunName, run_number, write_output
from lab.errors import ConfigurationError
from lab.failures import CHAPTERS, explain
from lab.host import process
from lab.host.clock import utc_now
from lab.jobs.listing import find_runs, whole_run
from lab.judge.builds import remarks
from lab.metrics import lab_metrics
from lab.results import exports, formatting, imports, listing, packs, retention, schema
from lab.results.artifacts import write_recordings
from lab.results.completeness import COMPLETED
from lab.results.formatting import evidence_lines, head_lines, headline, numbers_and_failures
from lab.results.formatting import status as status_of
from lab.results.listing import overview
from lab.results.location import locate
from lab.results.records import LAST_ID, STATUSES, Retention
from lab.results.snapshot import watch
from lab.results.store import Store, open_store, record_runs
from lab.terminal import doubtful, echo, echo_json, echo_text, json_text, table

app = typer.Typer(help="Measured numbers, and the evidence behind each.", no_args_is_help=True)


@app.command("list")
def list_runs(
    *,
    board: Annotated[
        list[str] | None,
        typer.Option(metavar="BOARD", help="Only runs of this board; `*` stands for anything; repeatable."),
    ] = None,
    board_type: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only runs of this board type, in the same way.")
    ] = None,
    release: Annotated[
        list[str] | None, typer.Option(metavar="R", help="Only runs of this release, in the same way.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help=f"{', '.join(STATUSES)}; repeatable.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Begun since: 2026-11-20, 2026-11-20T14:00 (UTC), 12h, 7d.")
    ] = "",
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, max=LAST_ID, help="Runs at most.")] = 20,
    db: Database = None,
) -> None:
    """List runs, the newest first."""
    for word in status or []:
        if word not in STATUSES:
            raise ConfigurationError(f"--status {word}: there are: {', '.join(STATUSES)}")
    run_filter = listing.RunFilter(
        tuple(board or ()),
        tuple(board_type or ()),
        tuple(release or ()),
        tuple(status or ()),
        listing.instant(since, utc_now()) if since else None,
    )
    with open_store(db, create=False) as store:
        runs = find_runs(store, run_filter, limit)
        if as_json:
            echo_json([formatting.list_document(listed.run, listed.outcomes, listed.averaged) for listed in runs])
            return
        if not runs:
            echo(_explain_empty(store, run_filter))
            return
    rows = []
    for listed in runs:
        run, good, tried = listed.run, listed.good, listed.tried
        description = [f"{run.started_at:%Y-%m-%d %H:%M}", run.board_type, run.board, run.release, run.kind]
        share = f"{good}/{tried}" if good == tried else doubtful(f"{good}/{tried}")
        rows.append([str(run.id), *description, status_of(run), share, headline(listed.averaged)])
    header = ["run", "begun (UTC)", "board type", "board", "release", "kind", "status", "good", "averages"]
    echo(*table(header, rows, "><<<<<<><"))


@app.command()
def show(
    run: RunName,
    *,
    as_json: Json = False,
    log: Annotated[bool, typer.Option("--log", help="Print the console log behind each number of a cycle.")] = False,
    cycle: Annotated[
        int | None, typer.Option(min=1, max=LAST_ID, help="With --log: which cycle (default: the first).")
    ] = None,
    medium: Annotated[str | None, typer.Option(help="With --log: of this medium only.")] = None,
    metric: Annotated[str | None, typer.Option(help="With --log: of this metric only, e.g. boot.time.")] = None,
    db: Database = None,
) -> None:
    """Show a run's numbers, stages and failed attempts.

    With --log, print the evidence of one cycle.
    """
    if not log and (cycle is not None or medium is not None or metric is not None):
        raise ConfigurationError("--cycle, --medium and --metric choose what --log prints; add --log")
    if log and as_json:
        raise ConfigurationError(
            "--log prints text; leave out --log for JSON, which names the log's artifact and bytes"
        )
    with open_store(db, create=False) as store:
        run_id = run_number(store, run)
        measured = whole_run(store, run_id)
        if log:
            lines = evidence_lines(measured, store.artifacts, cycle=cycle, medium=medium, metric=metric)
        elif as_json:
            echo_json(formatting.full_document(measured))
            return
        else:
            with watch(db).snapshot() as snapshot:
                notes = [f"  note: {remark}" for remark in remarks(snapshot, run_id)]
            lines = [*head_lines(measured), *notes, *numbers_and_failures(measured)]
    echo(*lines)


@app.command()
def failures(
    names: Annotated[list[str] | None, typer.Argument(metavar="[CLASS]…", help="Default: the list of all.")] = None,
) -> None:
    """List the failure classes, or explain some."""
    if not names:
        for chapter, classes in CHAPTERS.items():
            echo(f"{chapter}: {', '.join(name for failure_class in classes for name in failure_class.names)}")
    for name in names or ():
        lines = list(explain(name))
        if not lines:
            raise ConfigurationError(f"there is no failure class {name!r}; `lab results failures` lists them")
        echo(*lines)


@app.command()
def where(
    run: RunName,
    before: Annotated[str | None, typer.Argument(metavar="BEFORE", help="A run to compare it with.")] = None,
    *,
    whole: Annotated[bool, typer.Option("--all", help="Print all parts, not only the longest.")] = False,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tree as a trace for ui.perfetto.dev.")
    ] = None,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Show where a run's boot time goes, and another run's differences.

    The run was measured with --where.
    """
    from lab.judge import boot_breakdown  # noqa: PLC0415 - with all that reads a boot
    from lab.judge.boottrace import trace  # noqa: PLC0415

    with open_store(db, create=False) as store:
        breakdowns = boot_breakdown.read_breakdowns(store, run_number(store, run))
        earlier = [] if before is None else boot_breakdown.read_breakdowns(store, run_number(store, before))
    if perfetto is not None:
        write_output(perfetto, json_text(trace(breakdowns), indent=0), "--perfetto")
        return
    by_medium = {breakdown.medium: breakdown for breakdown in earlier}
    if before is not None and not by_medium.keys() & {breakdown.medium for breakdown in breakdowns}:
        raise ConfigurationError(f"runs {run} and {before} were diagnosed on no medium in common")
    if as_json:
        echo_json([boot_breakdown.document(breakdown, by_medium.get(breakdown.medium)) for breakdown in breakdowns])
        return
    for breakdown in breakdowns:
        echo(
            f"run {breakdown.run}, {breakdown.medium}, release {breakdown.release}: {breakdown.boots} diagnostic "
            f"boots (run {breakdown.diagnosis})"
        )
        if (other := by_medium.get(breakdown.medium)) is not None:
            echo(f"  against run {other.run}, release {other.release}:")
            echo(*(f"    {line}" for line in boot_breakdown.difference_lines(other, breakdown)))
        for remark in boot_breakdown.remarks(breakdown):
            echo(f"  note: {remark}")
        for line in boot_breakdown.clock_lines(breakdown):
            echo(f"  clock: {line}")
        if tree := boot_breakdown.tree_rows(breakdown, other, whole=whole):
            head = ("", "[ms]", "±", *(("start [s]", "%") if other is None else ("before", "difference")))
            echo(*table(head, tree, "<>>>>", indent=2))
        for title, cells in boot_breakdown.rows(breakdown, whole=whole):
            echo(title, *table(["", "own [ms]", "±", "whole"], cells, "<>>>", indent=2))


@app.command()
def export(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]…", help="Their numbers, or latest (default: all).")
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything, with the failed attempts (the default).")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line a sample; failed attempts have none.")] = False,
    as_junit: Annotated[bool, typer.Option("--junit", help="JUnit's XML, with the numbers as properties.")] = False,
    as_openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Averages with their times, as the exporter names them.")
    ] = False,
    origin: Annotated[
        str, typer.Option("--kcidb", metavar="ORIGIN", help="KCIDB's JSON, of this origin of yours.")
    ] = "",
    build_id: Annotated[
        str, typer.Option(metavar="ID", help="With --kcidb: the kernel's build (default: named after the release).")
    ] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
    db: Database = None,
) -> None:
    """Write runs for other programs; JSON and CSV have all their samples."""
    if as_json + as_csv + as_junit + as_openmetrics + bool(origin) > 1:
        raise ConfigurationError("--json, --csv, --junit, --openmetrics or --kcidb: one of them")
    if build_id and not origin:
        raise ConfigurationError("--build-id belongs to --kcidb")
    with open_store(db, create=False) as store:
        numbers = [run_number(store, run) for run in runs or ()] or [run.id for run in reversed(store.runs())]
        overviews = [overview(store, number) for number in numbers]
    if as_openmetrics:
        # It loads prometheus_client, which no other command here uses.
        from exporters.openmetrics import openmetrics  # noqa: PLC0415

        text = openmetrics([run for run in overviews if run.run.status == COMPLETED])
        others = [f"run {run.run.id} ({run.run.status})" for run in overviews if run.run.status != COMPLETED]
        if others:  # like the exporter, whose names these are
            echo(doubtful(f"left out, since not completed: {', '.join(others)}"), err=True)
    elif as_csv:
        text = formatting.export_csv(overviews)
    elif as_junit:
        text = exports.junit(overviews)
    elif origin:
        text = exports.kcidb(overviews, origin, build_id)
    else:
        text = json_text(formatting.export_document(overviews)) + "\n"
    if output is None:
        echo_text(text, end="")
    else:
        write_output(output, text, "-o")


@app.command("import")
def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="fio's JSON, iperf3's JSON, a log of LTP-DDT, or CSV.")
    ],
    *,
    board: Annotated[str, typer.Option(metavar="BOARD", help="The board's name, where the file has none.")] = "",
    board_type: Annotated[str, typer.Option("--type", metavar="TYPE", help="Its type, in the same way.")] = "",
    release: Annotated[str, typer.Option(metavar="R", help="Its release, in the same way.")] = "",
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help=f"{', '.join(imports.FORMATS)}, ltp-ddt (default: by the contents)."
        ),
    ] = "",
    one_run: Annotated[
        bool, typer.Option("--one-run", help="The files are the cycles of one run, not a run each.")
    ] = False,
    metrics: Annotated[
        Path, typer.Option(metavar="FILE", help="Declares the metrics of a CSV that boardlab lacks.")
    ] = Path(lab_metrics.FILE),
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Record numbers that other programs measured, as runs of their own.

    Nothing of any file is recorded if one of them is wrong.
    """
    from lab.benchmarks import ltpddt  # noqa: PLC0415 - with all of LMBench's parsers

    more = {ltpddt.FORM: imports.ImportForm(ltpddt.MARK, ltpddt.samples)}
    if form and form not in {**imports.FORMATS, **more}:
        raise ConfigurationError(f"--format {form}: there are: {', '.join((*imports.FORMATS, *more))}")
    is_declared = metrics != Path(lab_metrics.FILE) or os.path.lexists(metrics)
    declarations = lab_metrics.load(metrics) if is_declared else lab_metrics.Declarations()
    target = imports.ImportTarget(board, board_type, release, one_run, declarations)
    runs = imports.read_runs(files, target, form, more)
    with open_store(db) as store:
        ids = record_runs(store, runs)
    if as_json:
        echo_json({"runs": ids})
        return
    for run_id, run in zip(ids, runs, strict=True):
        numbers = sum(len(attempt.samples) for attempt in run.attempts)
        echo(
            f"run {run_id}: {numbers} numbers of {run.board}, release {run.release}, {run.started_at:%Y-%m-%d %H:%M} "
            "UTC"
        )


@app.command()
def recordings(
    run: RunName,
    *,
    cycle: Annotated[int | None, typer.Option(min=1, max=LAST_ID, help="Only this cycle.")] = None,
    medium: Annotated[str | None, typer.Option(help="Only this medium.")] = None,
    folder: OutputFolder = Path(),
    db: Database = None,
) -> None:
    """Write the console recordings of a run as files.

    `lab console replay` reads them.
    """
    with open_store(db, create=False) as store:
        attempts = [
            attempt
            for attempt in store.attempts(run_number(store, run))
            if (cycle is None or attempt.cycle == cycle) and (medium is None or attempt.params.get("medium") == medium)
        ]
        written = write_recordings(attempts, store.artifacts, folder)
    echo(*map(str, written))


@app.command()
def upload(
    *,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also what is not marked and does not lie there, e.g. of before it was shared."),
    ] = False,
    as_json: Json = False,
    db: Database = None,
) -> None:
    """Upload this host's artifacts to $LAB_SHARED_ARTIFACTS.

    These are artifacts that no job uploaded at its end.
    """
    with open_store(db, create=False) as store:
        done = packs.upload(store, everything=everything, say=lambda line: echo(line, err=True))
        left, where = len(store.artifacts.list_marked()), store.artifacts.shared
    if as_json:
        echo_json({"to": where, "brought": done.count, "bytes": done.bytes, "left": left, "busy": done.busy})
    elif done.busy:
        echo(f"another process brings them to {where}; {left} are left")
    else:
        echo(f"{done.count} artifacts, {done.bytes / 1e6:.1f} MB, brought to {where}; {left} are left")


@app.command()
def prune(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: Json = False,
    db: HostDatabase = None,
    farm: FarmFile = None,
) -> None:
    """Remove or pack old recordings, traces, logs and runs by farm.yaml's `retention`.

    What a verdict, a review or a written guide refers to stays, and what belongs to a release under `hold`.
    """
    from lab.farm import services  # noqa: PLC0415 - farm.yaml takes a while to import

    host = services.host_file(farm).farm
    rules = Retention() if host is None else host.retention
    if rules == Retention(hold=rules.hold):
        raise ConfigurationError(
            "farm.yaml has no `retention`, e.g. {recordings: 90, runs: 730}, in days: nothing goes"
        )
    with open_store(services.database(db, host), create=False) as store:
        removed = retention.prune(store, rules, dry_run=dry_run, person=process.actor())
    if as_json:
        echo_json(asdict(removed))
        return
    files = ", ".join(f"{count} {part}" for part, count in removed.files.items()) or "no"
    echo(
        f"{'would go' if dry_run else 'gone'}: {removed.runs} runs with {removed.samples} samples; of others {files} "
        "files"
        + (f", {removed.bytes / 1e6:.1f} MB" if removed.bytes else "")
        + (f"; packed: {removed.packed} files" if removed.packed else "")
        + (f"; {removed.jobs} jobs" if removed.jobs else "")
    )


@app.command()
def delete(
    run_id: Annotated[int, typer.Argument(metavar="RUN", min=1, max=LAST_ID, help="The run.")],
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it stands in the audit.")],
    db: Database = None,
) -> None:
    """Delete a run with all its numbers and files, for ever.

    A run is kept that a verdict, a review or a written guide refers to.
    """
    with open_store(db, create=False) as store:
        removed = retention.delete_run(store, run_id, process.actor(), reason)
    echo(f"run {run_id} is gone, with {removed.samples} samples")


@app.command()
def migrate(*, db: Database = None) -> None:
    """Migrate results of an older boardlab to this one's schema.

    A copy of an SQLite file is left beside it; a server's empty database gets its tables.
    """
    migrated: list[str] = []
    with open_store(db, create=locate(db).path is None, migrate=migrated.append) as store:
        echo(*(migrated or [f"{store.url} has this boardlab's schema, {schema.NEWEST}"]))


def _explain_empty(store: Store, run_filter: listing.RunFilter) -> str:
    """A sentence for an empty list: the names that there are instead."""
    if run_filter == listing.RunFilter():
        return f"no runs yet in {store.url}"
    asked = (
        ("boards", "board", run_filter.boards),
        ("types", "board_type", run_filter.types),
        ("releases", "release", run_filter.releases),
    )
    names_with_runs = [
        f"{title} with runs: {', '.join(listing.column_values(store, column)) or 'none'}"
        for title, column, names in asked
        if names
    ]
    return "; ".join([f"no such runs in {store.url}", *names_with_runs])
