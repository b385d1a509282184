"""Time, bytes and memory of a scrape of a large farm.

    uv run python bench/farm_scrape.py [--boards 1000] [--metrics 100] [--samples 20] [--releases 1] [--scrapes 20] [--interval 15]

A store with one completed run of each release a board is written, which has kept its sums, with as many open verdicts as the exporter shows at most. `lab exporter` is
started on it as a process of its own, and scraped as Prometheus does (gzip), and once without compression. Then one more run is
recorded, as a farm does all the time: how long until it is seen, and what a scrape costs meanwhile.
Aims: at most 0.3 s and 150 MB with 1,000 boards × 100 metrics.
"""

from __future__ import annotations

import gzip
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import requests
from attrs import frozen
from common import LAB, parser, peak_mb, print_table
from sqlalchemy.orm import Session
from support.farm_store import AT, fill

from lab.host.clock import utc_now
from lab.judge.records import NewVerdict
from lab.judge.store import MOST as VERDICTS
from lab.judge.store import write_verdicts
from lab.results import AttemptRecord, SampleRecord, open_store
from lab.results.models import RunRow
from lab.virtual.ports import free_port

AIM_S, AIM_MB = 0.3, 150.0
START_S = 900.0
NEW_RELEASE = "02.00"


@frozen
class Scrape:
    """One scrape: seconds until the last byte, bytes on the wire and of the text, series."""

    seconds: float
    wire: int
    text: int
    series: int


def scrape(session: requests.Session, url: str, encoding: str = "gzip", *, count: bool = False) -> Scrape:
    """Fetch all of it; the text is looked at after the clock has stopped."""
    start = time.perf_counter()
    with session.get(url, headers={"Accept-Encoding": encoding}, stream=True, timeout=60) as answer:
        data = answer.raw.read(decode_content=False)
    seconds = time.perf_counter() - start
    text = gzip.decompress(data) if encoding == "gzip" and count else data
    series = sum(not line.startswith(b"#") for line in text.splitlines()) if count else 0
    return Scrape(seconds, len(data), len(text), series)


def value(session: requests.Session, url: str, name: str) -> float | None:
    """The first series whose line begins so."""
    for line in session.get(url, timeout=60).iter_lines(chunk_size=1 << 20):
        if line.startswith(name.encode()):
            return float(line.rpartition(b" ")[2])
    return None


def speak(url: str) -> None:
    """Verdicts that nobody has decided on: of five numbers of each of the boards used last."""
    with open_store(url) as store:
        for head in store.runs(VERDICTS // 5):
            its = [m for m in store.measurements(head.id) if m.params == {"medium": "sd"}][:5]
            worse = (head.id, 20, 0.03, 0.02, 0.04)
            said = [NewVerdict(m.metric.name, m.metric.version, m.params, "regression", 1, *worse) for m in its]
            write_verdicts(store, head.id, said)
            with Session(store._engine) as session, session.begin():
                session.get_one(RunRow, head.id).started_at = utc_now()


def record(url: str) -> None:
    """One more run of the first board."""
    with open_store(url) as store:
        run = store.begin_run("boot", "am62xx_sk", "board-0000", NEW_RELEASE, plan={}, provenance={})
        params = {"medium": "sd"}
        samples = (SampleRecord("boot.time", params, 2.0, 0.001),)
        store.record_attempt(run.id, AttemptRecord(1, 1, params, "ok", None, None, "", AT, 1.0, samples))
        store.finish_run(run.id, "completed")


def main() -> None:
    """The program."""
    options = parser(__doc__)
    options.add_argument("--boards", type=int, default=1000)
    options.add_argument("--metrics", type=int, default=100)
    options.add_argument("--samples", type=int, default=20)
    options.add_argument("--releases", type=int, default=1)
    options.add_argument("--scrapes", type=int, default=20)
    options.add_argument(
        "--interval", type=float, default=15.0, help="between two looks at the store, as `lab exporter` has it"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name, requests.Session() as session:
        session.trust_env = False
        folder = Path(name)
        size = {"boards": given.boards, "metrics": given.metrics, "samples": given.samples, "releases": given.releases}
        url = fill(folder / "results.db", **size)
        with open_store(url) as store:
            store.keep_sums(given.boards * given.releases)
        speak(url)
        address = f"127.0.0.1:{free_port()}"
        words = [LAB, "exporter", "--db", url, "--listen", address, "--interval", str(given.interval)]
        words += ["--runtime", str(folder)]
        with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
            try:
                start = time.perf_counter()
                ready(session, f"http://{address}/metrics", process)
                first_s = time.perf_counter() - start, sum(psutil.Process(process.pid).cpu_times()[:2])
                report(session, f"http://{address}/metrics", process, given.scrapes, first_s, url)
            finally:
                process.terminate()


def ready(session: requests.Session, url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the results are there."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if value(session, url, "boardlab_results_stale") == 0:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise SystemExit("the exporter did not come up")


def report(
    session: requests.Session,
    url: str,
    process: subprocess.Popen[bytes],
    count: int,
    first_s: tuple[float, float],
    store: str,
) -> None:
    """Scrape, and print the tables."""
    memory = psutil.Process(process.pid)
    full = scrape(session, url, count=True)
    quiet = [scrape(session, url) for _ in range(count)]
    steady_mb = memory.memory_info().rss / 1e6
    plain = scrape(session, url, "identity")
    record(store)
    busy: list[Scrape] = []
    start = time.perf_counter()
    seen = f'boardlab_boot_duration_samples{{board="board-0000",board_type="am62xx_sk",kind="boot",medium="sd",release="{NEW_RELEASE}",version="1"'
    while True:
        busy.append(scrape(session, url))
        time.sleep(0.2)
        if len(busy) % 10 == 0 and value(session, url, seen) is not None:
            break
    seen_s = time.perf_counter() - start
    print(f"series {full.series}, text {full.text / 1e6:.1f} MB, on the wire {full.wire / 1e6:.2f} MB (gzip)\n")
    rows = [
        [name, str(len(found)), f"{statistics.median(found):.3f}", f"{max(found):.3f}", aim]
        for name, found, aim in (
            ("scrape, store at rest", [one.seconds for one in quiet], f"{AIM_S}"),
            ("scrape, while a new run is taken up", [one.seconds for one in busy], f"{AIM_S}"),
            ("scrape without compression", [plain.seconds], ""),
            ("from start to the first results", [first_s[0]], ""),
            ("CPU of the exporter until then", [first_s[1]], ""),
            ("from a new run to its numbers (with interval)", [seen_s], ""),
        )
    ]
    print_table(("", "n", "p50 s", "max s", "aim"), rows)
    print(f"resident: {steady_mb:.1f} MB, store at rest; {peak_mb(process.pid):.1f} MB at most (aim {AIM_MB:.0f})")


if __name__ == "__main__":
    main()
