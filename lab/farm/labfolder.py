"""A lab's folder with environments, strategy, suite and farm.yaml."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files as resources_of
from pathlib import Path
from typing import Any, Final

import jinja2
from attrs import frozen

from lab import package_data
from lab.env import envfile
from lab.errors import ConfigurationError, LabStableError
from lab.farm.services import COORDINATOR, HostFile
from lab.host.runtime import recordings_dir
from lab.provision.release import SUFFIX
from lab.virtual import pdudaemon

SIMULATED: Final = "sim-"  # prefix of simulated boards' environments
FARM_FILE: Final = "farm.yaml"
PARTS: Final = (package_data.ENVS, package_data.STRATEGIES, package_data.TESTS, package_data.FARM)
_PLAIN: Final = re.compile(r"[\w./][\w./+-]*")


@frozen
class Env:
    """An environment that comes with boardlab.

    Attributes:
        simulated: by `lab virtual up`; the board of such an env needs no edits.
        adapter: the ID_PATH of its console's USB adapter, as the file has it; empty where it has none.
    """

    path: Path
    board_type: str
    board: str
    simulated: bool
    adapter: str

    def lab_lines(self) -> list[int]:
        """Numbers of the lines that a lab edits, from 1."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return [number for number, line in enumerate(lines, start=1) if envfile.LAB_LINE.search(line)]


@cache
def list_shipped_envs() -> tuple[Env, ...]:
    """All environments that come with boardlab, by name."""
    return tuple(_env(path) for path in sorted(package_data.folder(package_data.ENVS).glob("*.yaml")))


def chosen(names: Iterable[str], *, sim: bool) -> list[Env]:
    """Environments of some board types.

    Args:
        sim: also those of their simulated boards.

    Raises:
        ConfigurationError: there is none of a type.
    """
    there = list_shipped_envs()
    types = sorted({env.board_type for env in there})
    env_of_path: dict[Path, Env] = {}
    for name in names:
        if name not in types:
            raise ConfigurationError(
                f"--board-type {name}: no environment of that type; there are: {', '.join(types)}"
            )
        env_of_path |= {
            env.path: env
            for env in there
            if env.board_type == name and (sim or not env.path.name.startswith(SIMULATED))
        }
    return list(env_of_path.values())


def contents(folder: Path, envs: Sequence[Env], parts: Iterable[str]) -> dict[str, str]:
    """Texts of a lab folder's files, by name.

    Args:
        folder: its absolute path.
        envs: at least one.
        parts: of PARTS.
    """
    texts: dict[str, str] = {}
    if package_data.ENVS in parts:
        texts |= {f"{package_data.ENVS}/{env.path.name}": env.path.read_text(encoding="utf-8") for env in envs}
    if package_data.STRATEGIES in parts:
        file = package_data.strategy_file()
        texts[f"{package_data.STRATEGIES}/{file.name}"] = file.read_text(encoding="utf-8")
    if package_data.TESTS in parts:
        tests = package_data.folder(package_data.TESTS)
        texts |= {
            f"{package_data.TESTS}/{path.name}": path.read_text(encoding="utf-8")
            for path in sorted(tests.glob("*.py"))
        }
        texts[f"{package_data.TESTS}/README.md"] = template("tests_perf.md", version=version("boardlab"))
    if package_data.FARM in parts:
        texts[FARM_FILE] = _farm(folder, envs)
    return texts


def write(folder: Path, texts: Mapping[str, str]) -> list[str]:
    """Write all files or none; return the names of new ones.

    Raises:
        ConfigurationError: one of them is there, and says something else.
        LabStableError: one cannot be written.
    """
    paths = {name: folder / name for name in texts}
    taken = [
        str(path)
        for name, path in paths.items()
        if path.is_symlink() or (path.exists() and not _says(path, texts[name]))
    ]
    if taken:
        raise ConfigurationError(
            f"nothing was written, since there is already: {', '.join(taken)}. Move that away, choose another "
            "folder, or write a part with --only"
        )
    new: list[Path] = []
    folders: list[Path] = []
    try:
        for name, path in paths.items():
            if path.exists():
                continue
            for place in (*reversed(path.parent.parents), path.parent):
                if not place.exists():
                    place.mkdir()
                    folders.append(place)
            with path.open("x", encoding="utf-8") as file:
                new.append(path)
                file.write(texts[name])
    except OSError as error:
        for path in new:
            path.unlink(missing_ok=True)
        for place in reversed(folders):
            with suppress(OSError):
                place.rmdir()
        raise LabStableError(
            f"{error.filename}: {error.strerror}; nothing was written. Choose another folder"
        ) from error
    return [name for name, path in paths.items() if path in new]


def backup_files(host: HostFile, runtime: Path, state: Path = Path("/var/lib")) -> list[Path]:
    """Files of a lab that a backup saves.

    The folder's environments, strategies and suite, farm.yaml and what it names, release files, labgrid's places,
    recordings. Not ssh's keys, passwords of databases and images of releases.

    Args:
        runtime: of the console server.
        state: where the services' folders are.
    """
    farm, folder = host.farm, host.folder
    own = [
        path for part in PARTS[:-1] for path in sorted((folder / part).rglob("*")) if "__pycache__" not in path.parts
    ]
    own += sorted(folder.glob("*.toml"))
    named = [] if host.file is None else [host.file]
    if farm is not None:
        texts = (farm.exports, farm.ssh_config, farm.exporter.web_config, farm.web.web_config, farm.web.users)
        named += [Path(text) for text in (*texts, farm.pdudaemon.config) if text]
        named += [state / farm.state / COORDINATOR / name for name in ("places.yaml", "resources.yaml")]
        folders = {Path(schedule.releases) for schedule in farm.schedules if schedule.releases}
        own += [path for releases in sorted(folders) for path in sorted(releases.glob(f"*{SUFFIX}"))]
    return [path for path in (*named, *own, *sorted(recordings_dir(runtime).rglob("*"))) if path.is_file()]


def _says(path: Path, text: str) -> bool:
    try:
        return path.is_file() and path.read_bytes() == text.encode()
    except OSError:
        return False


def _env(path: Path) -> Env:
    strategy = envfile.arguments_of(path, "BoardStrategy")
    switch = envfile.arguments_of(path, "PDUDaemonPort", "resources")
    match: dict[str, Any] = envfile.arguments_of(path, "USBSerialPort", "resources").get("match", {})
    return Env(
        path,
        str(strategy["board_type"]),
        str(strategy["board"]),
        package_data.is_bench(switch.get("pdu")),
        str(match.get("@ID_PATH", "")),
    )


def _farm(folder: Path, envs: Sequence[Env]) -> str:
    """Shipped farm.yaml with its comments and this folder's paths and boards."""
    text = (package_data.folder(package_data.FARM) / FARM_FILE).read_text(encoding="utf-8")
    head = text.partition("usb:\n")[0].replace(f"{package_data.FARM}/{FARM_FILE}", FARM_FILE)
    lab = Path(sys.executable).with_name("lab")
    values = {"directory": folder, "program": lab, "  program": pdudaemon.home() / "bin" / "pdudaemon"}
    lines = [
        f"{key}: {scalar(values[key])}" if (key := line.partition(": ")[0]) in values else line
        for line in head.splitlines()
    ]
    # A folder that was just made has no Alertmanager yet; `lab farm check` says so.
    lines = ["alertmanager: ''          # LAB: host:port" if x.startswith("alertmanager: ") else x for x in lines]
    adapters = [env for env in envs if env.adapter]
    if adapters:
        lines += ["usb:                    # LAB: id_path as in the environments"]
        lines += [f"  - {{name: {e.board} console, id_path: '{e.adapter}', kind: adapter}}" for e in adapters]
    lines += ["schedules:"]
    for env in [env for env in envs if not env.simulated] or envs:
        name = f"nightly-{env.board.replace('_', '-')}"
        lines += [f"  - {{name: {name}, env: {env.path.name}, board: {env.board}, every: day, at: '02:00'}}"]
    return "\n".join(lines) + "\n"


def scalar(path: Path) -> str:
    """A path as a YAML scalar."""
    return str(path) if _PLAIN.fullmatch(str(path)) else json.dumps(str(path), ensure_ascii=False)


def template(name: str, **values: object) -> str:
    """Render a text template of lab/farm/templates."""
    text = (resources_of("lab.farm") / "templates" / f"{name}.j2").read_text(encoding="utf-8")
    template = jinja2.Template(text, undefined=jinja2.StrictUndefined, autoescape=False)  # Markdown, not HTML
    return str(template.render(**values)) + "\n"
