"""labgrid environments of simulated boards.

The files envs/sim-*.yaml are made here too; a test holds them equal.
"""

from __future__ import annotations

import json
from importlib import resources

import jinja2

from lab import boards
from lab.package_data import STRATEGY_BESIDE, strategy_file
from lab.virtual import pdudaemon
from lab.virtual.board import BoardAccess
from lab.virtual.rails.levels import env_lines

PINS = ("can", "button", "wkup")  # wake-up sources with an output of the bench
MCU = "mcu"  # the UART, and the wake-up source by a key on it
DEFAULT_SWITCH_PORT = 16422  # port of envs/sim-*.yaml; pdudaemon's own is 16421
_HEAD = "# The simulated board {name} of the bench in {folder}; written by `lab virtual up sim`.\n"
_SHIPPED = (
    "# The simulated {title} that `lab virtual up sim --type {board_type}` starts: as {real}, but for the resources\n"
    "# and the board's name.\n"
)


def of_board(board_type: str, place: BoardAccess, serial: str) -> str:
    """Environment of a bench's board with its serial number."""
    folder = place.folder
    return _filled(
        board_type,
        head=_HEAD.format(name=folder.name, folder=folder.path.parent),
        name=folder.name,
        console=json.dumps(str(folder.uart(boards.load(board_type).console.name))),
        mcu=json.dumps(str(folder.uart(MCU))) if _has_mcu(board_type) else "",
        rails=json.dumps(f"unix:{folder.rails}"),
        pdudaemon=place.pdudaemon,
        switch=place.switch,
        latency_timer_ms=place.latency_timer_ms,
        identity=serial,
        has_app=True,  # its pin; a real board's environment has none
        strategy=json.dumps(str(strategy_file()), ensure_ascii=False),
    )


def shipped(board_type: str, real: str) -> str:
    """Text of an envs/sim-*.yaml beside the real env `real`.

    It is the board of `up sim` in a checkout.
    """
    board = boards.load(board_type)
    name = f"{board_type}-1"
    return _filled(
        board_type,
        head=_SHIPPED.format(title=board.title, board_type=board_type, real=real),
        name=name,
        console=f"!template $BASE/../.lab/virtual/{name}/{board.console.name}",
        mcu=f"!template $BASE/../.lab/virtual/{name}/{MCU}" if _has_mcu(board_type) else "",
        rails=f"!template unix:$BASE/../.lab/virtual/{name}/rails.sock",
        pdudaemon=f"127.0.0.1:{pdudaemon.DEFAULT_PORT}",
        switch=f"127.0.0.1:{DEFAULT_SWITCH_PORT}",
        latency_timer_ms=0.0,
        has_app=False,
        identity="",  # it depends on the seed that the board is brought up with
        strategy=STRATEGY_BESIDE,
    )


def _has_mcu(board_type: str) -> bool:
    """Return whether the MCU's UART reports its sleep."""
    return MCU in boards.load(board_type).low_power.wakes


def _filled(board_type: str, **values: object) -> str:
    text = (resources.files("lab.virtual.sim") / "data" / "env.yaml.j2").read_text(encoding="utf-8")
    # YAML, not HTML:
    template = jinja2.Template(text, trim_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False)
    board = boards.load(board_type)
    disks = {medium: disk for each in board.evidence if each.source == "kernel" for disk, medium in each.media.items()}
    card = disks.get("sd", "mmcblk1" if "emmc" in board.media else "mmcblk0")
    scratch = {
        "emmc": "/dev/mmcblk0p3",
        "sd": f"/dev/{card}p3",
        "nand": "/dev/mtd9",
        "ospi": "0x1000000",
        "emmc_blocks": "0x0",
        "sd_fat": f"{card[-1]}:1",
    }
    there = {name: place for name, place in scratch.items() if name.partition("_")[0] in board.media}
    pins = [pin for pin in PINS if pin in board.low_power.wakes]
    jumpers = list(dict.fromkeys(jumper for mode in board.sleep if (jumper := board.low_power.modes[mode].jumper)))
    site = {"scratch": there, "published": board.benchmarks, "pins": pins, "jumpers": jumpers}
    return str(template.render(board=board, sensors=env_lines(board), **site, **values)) + "\n"
