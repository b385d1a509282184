"""Golden outputs: what a user sees of this checkout, as files to compare with another checkout's.

    python tools/golden_outputs.py take FOLDER        # one to two minutes; needs a C compiler, and no network
    python tools/golden_outputs.py compare OLD NEW    # prints each difference as a unified diff; status 1: there is one

All programs run under a preloaded library that fixes the wall clock, the host's name and the names of pseudo terminals, and hides the host's load. NORMALISERS replace what
still differs between two takes. $BOARDLAB_GUIDES names a folder with the vendor's guides; without it they are written from their figures.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import itertools
import json
import multiprocessing.pool
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import typing
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

import attrs
import requests

REPOSITORY: typing.Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support import farm_scrape, guide_family, recorded_run, reported_runs, simruns, web_people  # noqa: E402
from support.console_bench import BOOT, paced  # noqa: E402
from support.judged_store import Nights  # noqa: E402
from support.prometheus_server import until  # noqa: E402

from lab.console import Chunk, Gap, Lateness, RecordingMeta, RecordingWriter, RecordKind  # noqa: E402
from lab.farm.config import Farm  # noqa: E402
from lab.results import open_store  # noqa: E402

PROGRAMS: typing.Final = Path(sys.executable).parent
NOW_S: typing.Final = 1_774_008_000  # 2026-03-20 12:00 UTC: after the days of the made runs
CLOCK: typing.Final = """\
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define IS_WALL(id) ((id) == CLOCK_REALTIME || (id) == CLOCK_REALTIME_COARSE)
#define LOAD "/proc/stat"
int clock_gettime(clockid_t id, struct timespec *now) { return IS_WALL(id) ? (*now = (struct timespec){NOW_S, 0}, 0) : syscall(SYS_clock_gettime, id, now); }
int open(const char *path, int flags, int mode) { return syscall(SYS_openat, -100, strcmp(path, LOAD) ? path : IDLE, flags, mode); }
int open64(const char *path, int flags, int mode) { return open(path, flags, mode); }
int gettimeofday(struct timeval *now, void *zone) { *now = (struct timeval){NOW_S, 0}; return 0; }
time_t time(time_t *now) { if (now) *now = NOW_S; return NOW_S; }
int gethostname(char *name, size_t size) { strncpy(name, "golden", size); return 0; }
int ttyname_r(int fd, char *name, size_t size) { strncpy(name, "/dev/pts/golden", size); return 0; }
"""
DRIVERS: typing.Final = """\
import sys, attr, labgrid.driver, labgrid.resource
kinds = (labgrid.target_factory.drivers, labgrid.target_factory.resources)
before = {*kinds[0], *kinds[1]}
labgrid.Environment(sys.argv[1])  # what it imports registers drivers and resources
for name, its in sorted((kinds[0] | kinds[1]).items()):
    if name not in before:
        print(name, *(each.name for each in attr.fields(its) if each.init))
"""
NORMALISERS: typing.Final = {  # name -> pattern of what differs between two takes of the same checkout, its replacement
    "version": (rf"\b{re.escape(version('boardlab'))}\b", "<version>"),
    "address": (r"127\.0\.0\.1:(?!9870|9880|8000|16421)\d{4,5}\b", "<address>"),
    "csrf": (r'(name="csrf" value=")[0-9a-f]{64}', r"\1<csrf>"),
    "pid": (r"\bpid \d+", "pid <pid>"),
    "clock": (r'("now_us": )[\d.]+', r"\1<us>"),
    "duration": (r"(?m)^(boardlab_collector_duration_seconds\{[^}]*\}) .*", r"\1 <s>"),
    "disk": (r"(?m)^(boardlab_disk_\w+_bytes\{[^}]*\}) .*", r"\1 <bytes>"),
}


def normalised(text: str, folders: Mapping[Path, str]) -> str:
    """The text without what differs between two takes; `folders`: path -> its name."""
    for path, name in folders.items():
        text = text.replace(str(path), name)
    for pattern, replacement in NORMALISERS.values():
        text = re.sub(pattern, replacement, text)
    return text


def digest(data: bytes) -> str:
    """Size and hash of bytes, as a line."""
    return f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}\n"


def lab(line: str) -> tuple[str, str, int]:
    """Run `lab` in this process of the pool: stdout, stderr, exit code."""
    sys.argv = [str(PROGRAMS / "lab"), *shlex.split(line)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        for number, file in enumerate((out, errors), start=1):
            os.dup2(file.fileno(), number)
        code = distribution("boardlab").entry_points["lab"].load()(sys.argv[1:])
        for stream, file in ((sys.stdout, out), (sys.stderr, errors)):
            stream.flush()
            file.seek(0)
        return out.read(), errors.read(), code


@attrs.frozen
class Golden:
    """The folder of the outputs; commands run in the current folder."""

    folder: Path
    pool: multiprocessing.pool.Pool
    here: Path = attrs.field(factory=Path.cwd)

    def write(self, name: str, text: str) -> None:
        """Write an output below the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        folders = {self.here: "<here>", self.here.parent: "<temporary>", REPOSITORY: "<repository>"}
        path.write_text(normalised(text, folders), encoding="utf-8")

    def lab(self, folder: str, lines: str) -> list[str]:
        """Write and return the outputs of `lab` with the words of each line, several at a time."""
        asked = [line.strip() for line in lines.split(";")]
        told = self.pool.map(lab, asked, chunksize=1)
        for line, (text, errors, code) in zip(asked, told, strict=True):
            whole = f"$ lab {line}\n{text}--- stderr\n{errors}--- exit code {code}\n"
            self.write(f"{folder}/{quote(line, ' ')}.txt", whole)
        return [text for text, _, _ in told]

    def files(self, folder: str, root: str) -> None:
        """Write the files below a folder of the current one; of programs only the names."""
        for path in filter(Path.is_file, Path(root).rglob("*")):
            self.write(f"{folder}/{path}", "" if path.suffix == ".py" else path.read_text(encoding="utf-8"))


def runs(golden: Golden) -> None:
    """Boots, suspends and sections of simulated boards, and a run as a bench records it."""
    for folder in ("runs", "sim"):
        Path(folder).mkdir()
    reported_runs.write(Path("runs").absolute())
    for page in Path("runs").glob("*.html"):
        golden.write(str(page), page.read_text(encoding="utf-8"))
    with simruns.bench(Path("sim"), [simruns.planned("kernel_panic", cycles="2")], cycles=3) as made:
        made.measure()
    for db in ("runs/boots.db", "runs/sleep.db", "runs/results.db", "sim/results.db"):
        (listed,) = golden.lab("runs", f"results list --json --db {db}")
        lines = [f"results {words} --db {db}" for words in ("list", "export --json", "export --csv")]
        for run in json.loads(listed):
            lines += [f"results show {run['id']} {option} --db {db}" for option in ("", "--json", "--log")]
        golden.lab("runs", "; ".join(lines))


def guides(golden: Golden) -> None:
    """The five guides, each compared with the next, and the guides that are written of stores."""
    Path("guides").mkdir()
    originals = "BOARDLAB_GUIDES" in os.environ
    found = guide_family.family(Path("guides")) if originals else guide_family.written(Path("guides"))
    golden.write("guides/source.txt", "the vendor's guides\n" if originals else "guides written from their figures\n")
    for name, path in found.items():
        Path("guides", name).write_bytes(path.read_bytes())
    names = sorted(found, key=lambda name: (re.findall(r"\d\d\.\d\d", name) or ["00.00"], name))
    alone = ("read", "read --json", "check --all", "check --json")
    golden.lab("guides", "; ".join(f"guide {words} guides/{name}" for name in names for words in alone))
    for old, new in [*itertools.pairwise(names), ("am62x-09.02.rst", "am62x-11.01.rst")]:
        for words in ("--all", "--json", "--html"):
            golden.lab("guides", f"guide compare {words} guides/{old} guides/{new}")
    for name in names:
        golden.lab("guides", f"guide import --db guides.db guides/{name}")
    golden.lab("guides", "guide trend boot.time --board am62xx_sk-fs --db guides.db; results list --db guides.db")
    for release, db in (("11.01", "runs/results.db"), ("11.02", "runs/boots.db"), ("09.02", "guides.db")):
        golden.lab("guides", f"guide write --release {release} --db {db} -o written/{release}")
    golden.files("guides", "written")


def judged(golden: Golden) -> None:
    """A history with a step at run 13, its verdicts, and what people say of them."""
    with open_store("judged.db") as store:
        nights = Nights(store)
        nights.quiet(12)
        for _ in range(4):
            nights.run(1.08, image="image 9")
    lines = """judge run 12 --all --json; judge run 13 --all --json; judge run 14 --all --json; judge run 15 --all --json;
        judge list --all; judge list --all --json; judge show 13; judge show 13 --all --json; judge show v1 --json;
        judge compare 16; judge compare 16 --json; report 13 -o judged.html; judge accept 14; judge stats;
        judge reject 13 --reason noise; judge list --json; results export"""
    for line in lines.split(";"):  # one after the other: a verdict knows those before it
        golden.lab("judged", f"{line.strip()} --db judged.db")
    golden.write("judged/report.html", Path("judged.html").read_text(encoding="utf-8"))


@contextlib.contextmanager
def serving(*words: str) -> Iterator[str]:
    """The URL of a server of `lab` while it runs."""
    command = [str(PROGRAMS / "lab"), *words, "--listen", "127.0.0.1:0"]
    with Path("servers.log").open("a", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert server.stdout is not None  # noqa: S101
    try:
        found = re.fullmatch(r"serving (http://\S+)\n", server.stdout.readline())
        yield found[1] if found else sys.exit(Path("servers.log").read_text(encoding="utf-8"))
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()


def farm(golden: Golden) -> None:
    """A farm with every metric that there is, and the files of a lab host."""
    folder = Path("farm").absolute()
    folder.mkdir(mode=0o700)
    values = farm_scrape.everything(folder).values
    texts = [f"{name}{dict(sorted(labels))} {value}\n" for (name, labels), value in values.items()]
    golden.write("farm/every metric.txt", "".join(sorted(texts)))
    with open_store("farm/results.db") as store:
        nights = Nights(store, board="am62x-sk-1")
        nights.quiet(10)
        last = nights.run(1.1, image="image 9", release="11.02")
        recorded_run.record(store, virtual=False, cycles=4)
        recorded_run.record(store, virtual=False, cycles=4, release="11.02", busy_from=3, seed=17)
    golden.lab("farm", f"judge run {last} --db farm/results.db")
    for name in ("am62x-09.02.rst", "am62x-11.01.rst"):
        golden.lab("farm", f"guide import --db farm/results.db guides/{name}")
    golden.lab("farm", "init lab; boards; boards --json")
    golden.files("farm", "lab")
    for path in (Path("lab/farm.yaml"), Path("lab/envs/am62x.yaml")):
        text = re.sub(
            r"(?m)^usb:.*\n  - .*\n", "", path.read_text(encoding="utf-8")
        )  # its collector looks for hardware
        text = text.replace("127.0.0.1:16421", "127.0.0.1:1").replace("/var/lib/boardlab", str(folder))
        path.write_text(text, encoding="utf-8")
    golden.lab("farm", "farm units lab/farm.yaml -o units; env check --env lab/envs/am62x.yaml")
    golden.lab("farm", "farm check --here lab/farm.yaml; farm check --here --json lab/farm.yaml")
    golden.files("farm", "units")
    with serving("exporter", "--farm", "lab/farm.yaml", "--runtime", str(folder), "--interval", "0.2") as url:
        golden.write("farm/scrape.txt", scraped(url))


def scraped(url: str) -> str:
    """A sorted scrape once all collectors have answered; neither pdudaemon nor the console server runs."""

    def answered() -> bool:
        text = asked(requests, url).text
        up = dict(re.findall(r'(?m)^boardlab_collector_up\{collector="(\w+)"\} (\S+)', text))
        return bool(up) and {name for name, value in up.items() if float(value) != 1} <= {"console", "pdudaemon"}

    until(answered, "every collector has answered")
    return "".join(sorted(asked(requests, url).text.splitlines(keepends=True)))  # the order of series varies


def asked(session: typing.Any, url: str) -> requests.Response:
    """The answer to a GET, past all proxies."""
    answer: requests.Response = session.get(url, allow_redirects=False, timeout=60, headers={"Accept": "text/html"})
    return answer


def web(golden: Golden) -> None:
    """All pages that links and the OpenAPI document name."""
    web_people.users(Path("farm"))
    options = ("--users", "farm/users.json", "--farm", "lab/farm.yaml", "--runtime", str(Path("farm").absolute()))
    for person, role in (("vera", "viewer"), ("olga", "operator")):
        with serving("web", *options) as url:
            crawl(golden, web_people.logged_in(url, person).session, url, f"web/{role}")


def crawl(golden: Golden, session: requests.Session, url: str, folder: str) -> None:
    """Follow every link of the site; a file for each page."""
    document = asked(session, f"{url}/api/v1/openapi.json").json()
    named = {"run_id": "1", "metric": "boot.time", "board": "am62x-sk-1", "release": "11.02"}
    templates = [path for path, methods in document["paths"].items() if "get" in methods and "/events/" not in path]
    waiting = [re.sub(r"\{(\w+)\}", lambda found: named.get(found[1], "1"), path) for path in sorted(templates)]
    waiting += ["/", "/search?q=am62", "/jobs/1/log", "/nothing"]  # the API first: it waits for the judge
    known = set(waiting)
    while waiting:
        path = waiting.pop(0)
        answer = asked(session, url + path)
        while "load delay:" in answer.text[:100_000]:  # a page that loads itself again is unfinished
            answer = asked(session, url + path)
        kind = answer.headers.get("content-type", "").partition(";")[0]
        head = f"{answer.status_code} {kind} {answer.headers.get('location', '')}".rstrip()
        text = answer.text if kind in {"text/html", "text/csv", "text/markdown"} else digest(answer.content)
        if kind == "application/json":
            text = json.dumps(answer.json(), indent=1, ensure_ascii=False) + "\n"
        golden.write(f"{folder}/{quote(path, ' ')}.txt", f"{head}\n{text}")
        links = re.findall(r'\s(?:href|src)="([^"#]+)', answer.text) if kind == "text/html" else []
        for split in (urlsplit(urljoin(url + path, link.replace("&amp;", "&"))) for link in links):
            found = split.path + (f"?{split.query}" if split.query else "")
            if f"{split.scheme}://{split.netloc}" == url and not found.startswith("/events/") and found not in known:
                known.add(found)
                waiting.append(found)


def recordings(golden: Golden) -> None:
    """A recording of several blocks, with a gap and a late read."""
    meta = RecordingMeta("uart0", "/dev/ttyUSB0", 115200, adapter_latency_ns=1_000_000)
    writer = RecordingWriter.create(Path("uart0"), meta)
    events = paced(BOOT * 8, meta.timing, sizes=(16, 1, 62))
    for event in events:
        writer.append(event)
    end_ns, end = events[-1].t_ns, writer.position
    writer.append(Lateness(end_ns + 1, end, 350_000))
    writer.append(Gap(end_ns + 2, end, RecordKind.LOST, 5))
    writer.append(Gap(end_ns + 3, end, RecordKind.BACK))
    writer.append(Chunk(end_ns + 4, end, b"\x00\xff again"))
    writer.close()
    for name in ("uart0.log", "uart0.idx"):
        golden.write(f"recordings/{name}.txt", digest(Path(name).read_bytes()))
    golden.lab("recordings", "console replay uart0.log; console replay --json uart0.log; console show uart0.idx")


def names(golden: Golden) -> None:
    """All by which users name things."""
    commands = [""]
    while commands:
        told = golden.lab("names/help", "; ".join(f"{words} --help" for words in commands))
        inner = [re.findall(r"(?m)^│ ([\w-]+) ", text.partition("─ Commands ─")[2]) for text in told]
        commands = [f"{words} {name}" for words, names in zip(commands, inner, strict=True) for name in names]
    text = subprocess.check_output([PROGRAMS / "pytest", "--help", "-p", "no:cacheprovider"], text=True)
    golden.write("names/pytest.txt", re.findall(r"(?ms)^boardlab:\n.*?^(?=\S)", text)[0])
    golden.lab("names", "nonsense; results show 99 --db judged.db; guide read missing.rst")
    golden.lab("names", "guide trend nonsense --board x --db judged.db")  # its message lists the metrics
    points = sorted(f"{point.group} {point.name}" for point in distribution("boardlab").entry_points)
    golden.write("names/entry points.txt", "\n".join(points) + "\n")
    text = subprocess.check_output([sys.executable, "-c", DRIVERS, "lab/envs/am62x.yaml"], text=True)
    golden.write("names/labgrid.txt", text)
    golden.write("names/farm.yaml keys.txt", "\n".join(keys(Farm)) + "\n")


def keys(model: type, prefix: str = "") -> Iterator[str]:
    """The keys of a YAML file that a class of attrs stands for."""
    for name, kind in typing.get_type_hints(model).items():
        yield f"{prefix}{name}"
        for inner in (kind, *typing.get_args(kind)):
            if attrs.has(inner):
                yield from keys(inner, f"{prefix}{name}.")


def take(folder: Path) -> int:
    """Write all outputs, in a process under CLOCK."""
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder}: not empty; name a new folder")
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        work = Path(name).resolve()
        (work / "here").mkdir()
        library = work / "clock.so"
        (work / "idle").write_text("cpu  1 1 1 1 1 1 1 1 1 1\n", encoding="ascii")
        defines = [f"-DNOW_S={NOW_S}", f'-DIDLE="{work / "idle"}"']
        build = ["cc", "-shared", "-fPIC", *defines, "-x", "c", "-o", str(library), "-"]
        subprocess.run(build, input=CLOCK, text=True, check=True)
        environ = {
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "COLUMNS": "120",
            "TZ": "UTC",
            "LOGNAME": "golden",
            "PYTHONUNBUFFERED": "1",
        }
        environ |= {name: os.environ[name] for name in ("PATH", "BOARDLAB_GUIDES") if name in os.environ}
        for each in ("HOME", "TMPDIR", "BOARDLAB_RUNTIME", "PYTHONPYCACHEPREFIX"):
            environ[each] = str(work / each.lower())
            (work / each.lower()).mkdir(mode=0o700)
        environ["LD_PRELOAD"] = str(library)
        command = [sys.executable, __file__, "inside", str(folder.absolute())]
        return subprocess.run(command, cwd=work / "here", env=environ, check=False).returncode


def compare(old: Path, new: Path) -> Iterator[str]:
    """The lines of a unified diff of each file that differs."""
    found = [{str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()} for root in (old, new)]
    for name in sorted({*found[0], *found[1]}):
        before, after = (its[name].read_text(encoding="utf-8").splitlines() if name in its else [] for its in found)
        yield from difflib.unified_diff(before, after, f"{old}/{name}", f"{new}/{name}", lineterm="")
        if (name in found[0]) != (name in found[1]):
            yield f"only in {old if name in found[0] else new}: {name}"


def main(arguments: Sequence[str]) -> int:
    """As the module says."""
    match [arguments[0], *map(Path, arguments[1:])] if arguments else []:
        case ["take", Path() as folder]:
            return take(folder)
        case ["inside", Path() as folder]:  # under the clock that `take` made
            random.seed(0)  # of labgrid's markers at a board's prompt
            with multiprocessing.get_context("fork").Pool() as pool:
                for output in (runs, guides, judged, farm, web, recordings, names):
                    output(Golden(folder, pool))
            return 0
        case ["compare", Path() as old, Path() as new]:
            lines = list(compare(old, new))
            sys.stdout.writelines(f"{line}\n" for line in lines)
            return int(bool(lines))
    sys.exit(__doc__)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
