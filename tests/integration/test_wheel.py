"""boardlab from its wheel alone: an empty environment, an empty folder, a simulated board that is measured."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import page_looks
import pytest
from attrs import frozen
from page_looks import Look, Step
from support import own_measurement as own
from support.facts import missing_facts
from uv import find_uv_bin

from lab.judge.records import UNSURE, NewVerdict
from lab.judge.store import write_verdicts
from lab.results import open_store
from lab.results.audit import Audit
from lab.web.app import create
from lab.web.site import Site

ROOT = Path(__file__).parents[2]
LIMIT_S = 120
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
UP = ("virtual", "up", "sim", "--type", "am62xx_sk", "--time-scale", "0.05", "--pdu-port", "0", "--switch-port", "0")
# What this session's own environment says; nothing of it shall help the wheel.
OURS = ("PYTHONPATH", "VIRTUAL_ENV", "BOARDLAB_", "LAB_", "UV_FROZEN", "UV_PROJECT", "PYTEST_", "COVERAGE_")

Done = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith(OURS)}, **more}


def from_cache_or_network(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a command in which uv takes what it needs from its cache, and only where that lacks something from the network."""
    said = []
    for offline in ("1", "0"):
        env = environment(
            UV_OFFLINE=offline, UV_PYTHON=sys.executable, PATH=f"{Path(find_uv_bin()).parent}:{os.environ['PATH']}"
        )
        done = subprocess.run(
            words, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=2 * LIMIT_S
        )
        if done.returncode == 0:
            return
        said.append(done.stderr)
    pytest.fail("\n".join(said))


@frozen
class Host:
    """A host with the wheel in an environment that nobody has activated, and nothing else of boardlab.

    Attributes:
        lab: the folder that `lab init` has written there.
    """

    root: Path
    lab: Path

    def program(self, name: str) -> Path:
        return self.root / "venv" / "bin" / name

    def run(self, *words: str | Path, cwd: Path | None = None, path: str = SYSTEM) -> Done:
        env = environment(
            BOARDLAB_RUNTIME=str(self.root / "runtime"),
            LAB_DB=f"sqlite:///{self.root / 'results.db'}",
            PATH=path,
        )
        return subprocess.run(
            [*map(str, words)],
            env=env,
            cwd=cwd or self.lab,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def lab_command(self, *words: str, cwd: Path | None = None) -> Done:
        return self.run(self.program("lab"), *words, cwd=cwd)

    def runs(self) -> list[tuple[str, str]]:
        listed = self.lab_command("results", "list", "--json")
        return [(run["kind"], run["status"]) for run in json.loads(listed.stdout)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    root = tmp_path_factory.mktemp("host")
    uv, venv, wanted = find_uv_bin(), root / "venv", root / "locked.txt"
    from_cache_or_network(uv, "build", "--wheel", "--quiet", "--out-dir", root / "dist")
    from_cache_or_network(uv, "export", "-q", "--frozen", "--no-default-groups", "--no-emit-project", "-o", wanted)
    from_cache_or_network(uv, "venv", "--quiet", "--python", sys.executable, venv)
    (wheel,) = (root / "dist").glob("*.whl")
    from_cache_or_network(uv, "pip", "install", "--quiet", "--python", venv, "-r", wanted, wheel)
    host = Host(root, root / "my lab")
    made = host.lab_command("init", str(host.lab), "--sim", cwd=root)
    assert made.returncode == 0, made.stderr
    for name in ("strategies", "virtual", "lab"):  # a user's own, which a conftest puts before all others
        (host.lab / name).mkdir(exist_ok=True)
        (host.lab / name / "__init__.py").touch()
    (host.lab / "conftest.py").touch()
    yield host
    host.lab_command("virtual", "down")
    host.lab_command("console", "stop")


@pytest.fixture(scope="module")
def powered(host: Host) -> Host:
    """The same with pdudaemon, installed as `lab virtual up` has said."""
    refused = host.run(host.program("lab"), *UP, path=f"{Path(find_uv_bin()).parent}:{SYSTEM}")
    assert refused.returncode == 2
    assert not missing_facts(refused.stderr, "pdudaemon", "not installed")
    command = refused.stderr.partition("environment of its own: ")[2]
    assert f"{host.root}/venv/lib/" in command
    from_cache_or_network("sh", "-c", command, cwd=host.root)
    return host


@pytest.fixture(scope="module")
def measuring(powered: Host) -> list[str]:
    """What `lab virtual up` says how to measure its board."""
    up = powered.lab_command(*UP)
    assert up.returncode == 0, up.stderr
    return shlex.split(up.stdout.partition("measure it: ")[2])


@pytest.mark.soak
def test_an_empty_environment_and_an_empty_folder_measure_a_board(host: Host, measuring: list[str]) -> None:
    assert measuring == [
        str(host.program("pytest")),
        f"--lg-env={host.lab}/.lab/virtual/env.yaml",
        f"{host.lab}/tests_perf",
    ]
    chapter = ("--strict-markers", "-m", 'chapter(name="Boot-time Measurement")')
    measured = host.run(*measuring, *chapter, "--lab-cycles", "1", "--lab-medium", "sd", cwd=host.root)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert not missing_facts(measured.stdout, "boot time", "run 1: completed")
    assert host.runs() == [("boot", "completed")]
    assert "am62xx_sk-1" in host.lab_command("results", "list").stdout
    ours = host.lab_command("run", "--env", f"{host.lab}/.lab/virtual/env.yaml", "--cycles", "1", cwd=host.root)
    assert ours.returncode == 0, ours.stdout + ours.stderr
    assert "lab_folder/tests_perf/test_boot.py" in ours.stdout
    assert host.runs() == [("boot", "completed")] * 2


@pytest.mark.soak
def test_the_ten_lines_of_the_docs_measure_from_an_empty_folder(host: Host, measuring: list[str]) -> None:
    folder = host.root / "own"
    folder.mkdir()
    own.write(folder)
    for _ in range(2):
        measured = host.run(*measuring[:2], own.FILE, cwd=folder)
        assert measured.returncode == 0, measured.stdout + measured.stderr
    compared = host.lab_command("judge", "compare", "latest", "--all")
    assert own.METRIC in compared.stdout, compared.stdout + compared.stderr
    with open_store(f"sqlite:///{host.root / 'results.db'}") as store:
        run = store.runs()[0]
        own.assert_kept(store, run.id, cycles=3)
        own.assert_compared(store, run.id)
        own.assert_shown(store, run.id)


def test_what_a_lab_host_installs_is_there(host: Host) -> None:
    checked = host.lab_command("farm", "check", "farm.yaml")
    farm = Path(host.lab_command("farm", "files").stdout.strip())
    assert farm.is_relative_to(host.root / "venv")
    for path in (
        "prometheus/rules/alerts.yml",
        "grafana/dashboards/boardlab-boot.json",
        "alertmanager/alertmanager.yml",
        "alertmanager/boardlab.tmpl",
    ):
        assert (farm / path).read_text() == (ROOT / "farm" / path).read_text()
    problems = [line for line in checked.stdout.splitlines() if line.startswith("farm.yaml: ")]
    assert all("lab env check" in line for line in problems), (
        checked.stdout
    )  # also with the blank in the folder's name


OWN = """
import hashlib
from pathlib import Path

import lab.drivers
from boardlab_example import section
from labgrid.factory import target_factory

from lab.benchmarks import sections
from lab.provision.release import Content, Image
from lab.provision.writer import WriteTarget
from lab.rails.config import RailConfig, RailsConfig
from lab.rails.model import AdcRange
from lab.rails.sensors import open_sensor
from lab.guide.check.findings import load_rules

(own,) = [each for each in sections.every() if each not in sections.ALL]
print(own.name, [(r.metric, r.value) for r in section.parse(b"BogoMIPS\\t: 400.00\\n")], own.metric("example.bogomips").unit)

Path("vdd").write_text("5.01 0.25")
sensor = open_sensor(RailsConfig("b", "bench-supply", ".", (RailConfig("vdd", 5.0),)))
print(sensor.start(AdcRange.ACTIVE).channels[0].rail, sensor.read()[0])

Path("image").write_bytes(b"an image" * 1000)
driver = target_factory.drivers["CopyDriver"]
writer = __import__("boardlab_example.writer").writer.CopyWriter(Path("medium"))
plan = writer.plan(Content(image=Image(source="image", sha256=hashlib.sha256(Path("image").read_bytes()).hexdigest())), WriteTarget("b", "am62xx_sk", "sd"))
writer.write(plan, lambda _progress: None)
print(writer.verify(plan).bytes, Path("medium").read_bytes() == Path("image").read_bytes())

print([rule.page for rule in load_rules() if rule.id == "example-round"])
"""


@pytest.fixture(scope="module")
def package(host: Host) -> str:
    """The example package, installed beside the wheel: the variable that names its folder."""
    folder, example = host.root / "own package", ROOT / "examples" / "boardlab-example"
    words = ("pip", "install", "--quiet", "--no-deps", "--python", host.program("python"), "--target", folder, example)
    from_cache_or_network(find_uv_bin(), *words)
    return f"PYTHONPATH={folder}"


def test_a_package_of_ones_own_adds_a_section_a_rail_backend_a_writer_and_a_rule(host: Host, package: str) -> None:
    folder = host.root / "tried"
    folder.mkdir()
    tried = host.run("env", package, host.program("python"), "-c", OWN, cwd=folder)
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.splitlines() == [
        "bogomips [('example.bogomips', 400.0)] MIPS",
        "vdd SensorReading(rail=0, bus_uv=5010000, shunt_nv=2500000, mark=0)",
        "8000 True",
        "['https://example.org/round']",
    ]


@pytest.mark.soak
def test_the_section_of_a_package_of_ones_own_is_measured(host: Host, package: str, measuring: list[str]) -> None:
    measured = host.run("env", package, *measuring, "--lab-sections", "bogomips", cwd=host.root)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    with open_store(f"sqlite:///{host.root / 'results.db'}") as store:
        (number,) = store.measurements(store.runs()[0].id)
    assert (number.metric.name, {sample.value for sample in number.samples}) == ("example.bogomips", {400.0})


def test_the_man_page_is_where_man_looks(host: Host) -> None:
    page = host.root / "venv" / "share" / "man" / "man1" / "lab.1"
    assert page.read_text() == (ROOT / "docs" / "man" / "lab.1").read_text()


BOARD = "am62xx_sk-1"
PAGE = f"/boards/{BOARD}"
ASKS = {"/power-cycle", "/cancel"}  # actions that ask first
# A promise that is kept once `ready` holds of the board, as the site's own interface has it.
WHEN = """
new Promise((done, broken) => {
  setTimeout(() => broken(new Error(document.body.innerText.slice(-2000))), 180000);
  const look = async () => {
    const board = await (await fetch('/api/v1%s')).json();
    if ((({ now, runs }) => %s)(board)) { done(); } else { setTimeout(look, 100); }
  };
  look();
})
"""
SENT = """
new Promise((done) => {
  const state = document.getElementById('typing-state');
  const look = () => state.textContent.startsWith('Sent') && done();
  new MutationObserver(look).observe(state, { childList: true, subtree: true, characterData: true });
  look();
})
"""


@pytest.fixture
def farm(powered: Host) -> Iterator[Path]:
    """An empty folder in which `lab farm up` has brought a farm up."""
    folder = powered.root / "empty"
    folder.mkdir()

    def lab(*words: str) -> str:
        command, environ = [powered.program("lab"), "farm", *words], environment(PATH=SYSTEM)
        done = subprocess.run(
            command, cwd=folder, env=environ, check=False, capture_output=True, text=True, timeout=2 * LIMIT_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        lab("up", "--count", "1", "--time-scale", "0.02")
        (folder / "link").write_text(lab("logs", "web").rpartition("to act: ")[2].split()[0])
        yield folder
    finally:
        lab("down")


def when(ready: str) -> Step:
    """Wait until this holds of the board."""
    return Step("run", WHEN % (PAGE, ready))


def form(action: str, button: str = "button", **fields: str) -> tuple[Step, ...]:
    """Fill a form in, and send it; a dangerous one is opened before."""
    place = f"form[action$='{action}']"
    typed = [
        step for name, text in fields.items() for step in (Step("focus", f"{place} [name={name}]"), Step("type", text))
    ]
    opened = (Step("click", f"details:has({place}) summary"),) if action in ASKS else ()
    return (*opened, *typed, Step("send", f"{place} {button}"))


@pytest.mark.soak
def test_every_action_of_the_site_of_a_farm_in_an_empty_folder_works(farm: Path) -> None:
    own, path = re.fullmatch(r"(http://[^/]+)(/.*)", (farm / "link").read_text()).groups()  # type: ignore[union-attr]
    database = f"sqlite:///{farm}/.lab/farm/results.db"

    def look(*pages: tuple[str, tuple[Step, ...]]) -> set[str]:
        """Log in at each page, and act there; what was asked for."""
        looks = [
            Look(own, f"{path}&next={quote(page, safe='')}", steps=(Step("send", "main form.act button"), *steps))
            for page, steps in pages
        ]
        seen = page_looks.look(looks)
        assert [each.complaints for each in seen] == [[]] * len(looks)
        return {address.removeprefix(own).partition("?")[0] for each in seen for address in each.asked}

    line = (Step("focus", "#typing [name=line]"), Step("type", "root"), Step("press", "Enter"), Step("run", SENT))
    actions = (
        *form("/run", cycles="1"),
        when("runs.length === 1 && now.last && !now.job"),
        *form("/power-cycle"),
        *form("/comment", text="a new cable"),
        *form("/maintain", reason="no fan"),
        *form("/maintained"),
        *form("/reserve", reason="a new PMIC"),
        *line,
        Step("click", "#hold"),
        Step("wait", "#hold[aria-pressed=true]"),
        *form("/release"),
        *form("/logout"),
    )
    asked = look((PAGE, actions))
    with open_store(database) as store:
        (run,) = store.runs()
        given = [
            NewVerdict("boot.time", 1, {"medium": medium}, outcome, 1, run.id, 3, 0.05, 0.04, 0.06)
            for medium, outcome in (("sd", "regression"), ("emmc", UNSURE))
        ]
        write_verdicts(store, run.id, given)
    day = Step("run", "document.querySelector('form[action$=mute] [name=until]').value = '2999-12-31'")
    asked |= look(
        (f"/releases/{run.release}", (*form(f"/runs/{run.id}/again"), when("now.job"))),
        (PAGE, (*form("/cancel"), when("!now.job"))),
        ("/metrics/boot.time", (day, *form("/mute", reason="known"))),
        ("/metrics/boot.time", form("/review", "button[value=accept]", reason="the compiler")),
    )
    routes = [route for route in create(Site()).routes if "POST" in (getattr(route, "methods", None) or ())]
    assert [route.path for route in routes if not any(route.path_regex.fullmatch(each) for each in asked)] == []  # type: ignore[attr-defined]
    with open_store(database) as store:
        entries = [each for each in Audit(store).entries() if each.action != "release console"]
        assert [each for each in entries if each.outcome != "done"] == []
        assert store.run(run.id).status == "completed"
