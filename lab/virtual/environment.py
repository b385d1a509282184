"""The labgrid environment of a virtual board.

envs/virtual.yaml is the default instance's; a test holds both equal.
"""

from __future__ import annotations

import json
import re
import shlex
from importlib import resources
from pathlib import Path

from lab import boards, package_data
from lab.virtual import pdudaemon, sdmux
from lab.virtual.board import BoardAccess
from lab.virtual.rails.levels import env_lines
from lab.virtual.state import ENV

DEFAULT_BOARD = "qemu-1"
DEFAULT_LATENCY_TIMER_MS = 1.0  # of an FTDI adapter in low-latency mode
QEMU_TYPE = "qemu-virt"
_TEMPLATE = "!template "
_DEFAULT_FOLDER = f"{_TEMPLATE}$BASE/../.lab/virtual"
_RAIL_SENSORS = """\
RailSensors:
  backend: ina231
  port: @unix:rails.sock@
  bus_khz: 2940
  rails:
    {rails}"""
_STRAP = """\
- FileDigitalOutputDriver:
    name: bit{bit}
    filepath: @path:straps/bit{bit}@"""
_TESTER = """\
  tester:
    drivers:
      - TesterDriver:
          command: {command}
"""
_MULTIPLEXER = """\
      VirtualSDMux:
        url: {url}
        image: {image}
"""
_DRIVERS, _STRATEGY = "    drivers:\n", "      - BoardStrategy:\n"
_HEAD = "# The virtual board {board} of the bench in {folder}; written by `lab virtual up`.\n"


def measuring(bench: Path) -> str:
    """Command that measures a bench's first board, from any folder.

    The `=` matters: pytest takes a path that stands alone for a folder of tests when it looks for its settings.
    """
    tests = package_data.tests(Path.cwd())
    return shlex.join([package_data.program("pytest"), f"--lg-env={bench.absolute() / ENV}", str(tests)])


def default() -> str:
    """Text of envs/virtual.yaml.

    It is the board of `lab virtual up` in a checkout without options.
    """
    head = (
        "# The virtual board that `lab virtual up` starts: real U-Boot and a real kernel in QEMU.\n"
        "# Power goes through pdudaemon, the console is a pty, the boot-mode straps are files.\n"
    )
    address = f"127.0.0.1:{pdudaemon.DEFAULT_PORT}"
    return head + _fill(
        _DEFAULT_FOLDER, DEFAULT_BOARD, address, DEFAULT_LATENCY_TIMER_MS, strategy=package_data.STRATEGY_BESIDE
    )


def of_board(place: BoardAccess, board_type: str = QEMU_TYPE, *, site: str = "", writers: str = "") -> str:
    """The environment of a QEMU board of a bench.

    Args:
        site: its options of benchmarks, as YAML, where it has benchmark programs, scratch partitions and a tester; empty: it has not.
        writers: the drivers that put releases on it, as YAML; empty: none can be put on it.
    """
    folder, board = place.folder.path.parent, place.folder.name
    head = _HEAD.format(board=board, folder=folder)
    strategy = json.dumps(str(package_data.strategy_file()), ensure_ascii=False)
    text = head + _fill(folder, board, place.pdudaemon, place.latency_timer_ms, board_type, strategy=strategy)
    if writers:
        panel, card = f"http://{place.switch}/boards/{board}/sdmux", str(sdmux.host_image(place.folder))
        mux = _MULTIPLEXER.format(url=json.dumps(panel), image=json.dumps(card, ensure_ascii=False))
        more = writers.replace("@tftp@", json.dumps(str(place.folder.tftp), ensure_ascii=False))
        text = text.replace(_DRIVERS, mux + _DRIVERS, 1).replace(_STRATEGY, more + _STRATEGY, 1)
    if not site:
        return text
    main, imports = "  main:\n", "imports:\n"
    command = json.dumps(["lab", "virtual", "tester", "--board", board, "--dir", str(folder)], ensure_ascii=False)
    return text.replace(main, main + site, 1).replace(imports, _TESTER.format(command=command) + imports, 1)


def _fill(
    folder: str | Path,
    board: str,
    address: str,
    latency_timer_ms: float,
    board_type: str = QEMU_TYPE,
    *,
    strategy: str,
) -> str:
    template = (resources.files("lab.virtual.qemu") / "texts" / "env.yaml.in").read_text(encoding="utf-8")
    kind = boards.load(board_type)
    bits = range(kind.boot_mode_bits)
    rails = env_lines(kind)

    def path(name: str, scheme: str = "") -> str:
        where = str(folder)
        if where.startswith(_TEMPLATE):
            return f"{_TEMPLATE}{scheme}{where.removeprefix(_TEMPLATE)}/{board}/{name}"
        return json.dumps(f"{scheme}{where}/{board}/{name}", ensure_ascii=False)

    values = {
        "board": board,
        "board_type": board_type,
        "pdudaemon": address,
        "strategy": strategy,
        "latency_timer_ms": f"{latency_timer_ms:.1f}",
        "rail_sensors": _RAIL_SENSORS.format(rails="\n    ".join(rails)) if rails else "",
        "rails_driver": "- RailsDriver: {}" if rails else "",
        "straps": "\n".join(_STRAP.format(bit=bit) for bit in bits),
        "lines": ", ".join(f"{bit}: bit{bit}" for bit in bits),
        **{name: getattr(kind.prompts, name) for name in ("uboot", "autoboot", "login", "shell")},
    }

    def filled(match: re.Match[str]) -> str:
        scheme, name = match[1], match[2]
        return values[name] if scheme is None else path(name, "" if scheme == "path:" else scheme)

    def block(match: re.Match[str]) -> str:
        lines = values[match[2]].splitlines()
        return "".join(f"{match[1]}{line}\n" for line in lines)

    text = re.sub(r"^( +)@(rail_sensors|rails_driver|straps)@\n", block, template, flags=re.MULTILINE)
    return re.sub(r"@(path:|unix:)?([\w/.]+)@", filled, text)
