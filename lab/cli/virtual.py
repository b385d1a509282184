"""`lab virtual`: bring virtual boards up and down, and look at them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import requests
import typer

from lab.cli.options import BenchFolder, Json, make_folder
from lab.errors import ConfigurationError, LabTransientError
from lab.terminal import echo, echo_json, table
from lab.virtual import control, kinds, pdudaemon
from lab.virtual.board import BoardFolder, BoardSpec
from lab.virtual.environment import DEFAULT_BOARD, DEFAULT_LATENCY_TIMER_MS, QEMU_TYPE, measuring
from lab.virtual.panel import PREFIX
from lab.virtual.qemu import cable, uboot
from lab.virtual.sim.environment import DEFAULT_SWITCH_PORT
from lab.virtual.sim.faults.base import parameters
from lab.virtual.sim.faults.catalogue import FAULTS
from lab.virtual.sim.kind import MOST, SimOptions, board_specs
from lab.virtual.sim.model import is_simulated
from lab.virtual.sim.tester import answer
from lab.virtual.state import DEFAULT_FIFO_BYTES, default_folder, expect, running


def faults(as_json: Json = False) -> None:
    """List the faults that simulated boards can have, with their parameters."""
    if as_json:
        listed = [
            {
                "fault": kind.name,
                "does": kind.does(),
                "parameters": {n: p.default for n, p in parameters(kind).items()},
            }
            for kind in FAULTS.values()
        ]
        echo_json(listed)
        return
    rows = []
    for kind in FAULTS.values():
        takes = " ".join(f"{name}={parameter.default}" for name, parameter in parameters(kind).items())
        rows.append([kind.name, f"{kind.does()}{f' [{takes}]' if takes else ''}"])
    echo(*table(["fault", "effect [parameters]"], rows, "<<"))


def fault(
    board: Annotated[str, typer.Argument(help="The board's name.")],
    name: Annotated[str, typer.Argument(help="The fault (`lab virtual faults`).")],
    settings: Annotated[list[str] | None, typer.Argument(help="Parameters, as NAME=VALUE.")] = None,
    cycles: Annotated[str, typer.Option(help="Now, next, all, or power-ons such as 3, 2-4, 1,5-7.")] = "next",
    probability: Annotated[float, typer.Option(help="Probability in each of these cycles.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The fault's random seed (default: the board's).")] = None,
    folder: BenchFolder = None,
) -> None:
    """Add a fault to a simulated board."""
    order = {"fault": name, "cycles": cycles, "probability": f"{probability:g}"}
    if seed is not None:
        order["seed"] = str(seed)
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigurationError(f"{setting!r}: expected NAME=VALUE; `lab virtual faults` lists the parameters")
        order[key] = value
    answer = _ask(folder, board, order)
    now = ", ".join(map(str, answer["now"])) or "none"
    planned = ", ".join(f"{fault['fault']} (power-ons {fault['cycles']})" for fault in answer["planned"]) or "none"
    echo(f"{board}: power-ons so far {answer['cycle']}, at work: {now}, planned: {planned}")


def clear(board: Annotated[str, typer.Argument(help="The board's name.")], folder: BenchFolder = None) -> None:
    """Remove all faults of a simulated board, also those of its scenario."""
    _ask(folder, board, {})
    echo(f"{board}: no faults; their effects stay until its next power-on")


def _ask(folder: Path | None, board: str, order: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    state = expect(folder.absolute() if folder else default_folder())
    try:
        answer = requests.put(f"http://{state.http}{PREFIX}{board}/faults", params=order, timeout=5)
        body: dict[str, list[dict[str, str]]] = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise LabTransientError(f"the bench (pid {state.pid}) does not answer at {state.http}: {error}") from error
    if not answer.ok:
        raise ConfigurationError(str(body.get("error", answer.status_code)))
    return body


IDLE_OFF_S = 600.0  # a board that waits at the U-Boot prompt burns a core

# Payload of a full-speed FTDI adapter's 64-byte USB packet (FTDI AN232B-04): a quarter of the work of 16-byte FIFOs.
FTDI_BYTES = 62

app = typer.Typer(
    help="Virtual boards, powered and wired like real ones: QEMU with real software, and simulated ones by the dozen.",
    no_args_is_help=True,
)
LAST_PORT = 65_535


@app.command()
def up(
    kind: Annotated[str, typer.Argument(help="qemu: real software; sim: simulated boards, any number.")] = "qemu",
    folder: BenchFolder = None,
    board_type: Annotated[
        list[str] | None, typer.Option("--type", "--kind", help="Board type; sim: repeatable.")
    ] = None,
    name: Annotated[str, typer.Option(help="qemu: the board's name.")] = DEFAULT_BOARD,
    pdu_port: Annotated[
        int, typer.Option(min=0, max=LAST_PORT, help="pdudaemon's port; 0: a free one.")
    ] = pdudaemon.DEFAULT_PORT,
    switch_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_PORT, help="The power switch's port; 0: a free one (default: qemu 0, sim 16422)."
        ),
    ] = None,
    idle_off: Annotated[
        float | None,
        typer.Option(help="Switch off after so many silent seconds; 0: never (default: qemu 600, sim 0)."),
    ] = None,
    latency_timer_ms: Annotated[
        float | None, typer.Option(help="Latency timer of the USB adapters (default: qemu 1, sim 0).")
    ] = None,
    fifo_bytes: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_536, help="Bytes that the USB adapters deliver at once (default: qemu 16, sim 62)."
        ),
    ] = None,
    tcp_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_PORT, help="Give each UART a TCP port too, from this one on; 0: free ones (status --json)."
        ),
    ] = None,
    bench_tools: Annotated[
        bool, typer.Option("--tools", help="qemu: an image with benchmark programs of Debian; boots more slowly.")
    ] = False,
    network: Annotated[
        bool,
        typer.Option(
            "--network", help="qemu: a board on a network, with a U-Boot that loads: releases can be put on it."
        ),
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start from new media and straps.")] = False,
    count: Annotated[int, typer.Option(min=1, max=MOST, help="sim: boards of each type; in all at most 256.")] = 1,
    release: Annotated[str, typer.Option(help="sim: the release that they run (default: the newest).")] = "",
    seed: Annotated[
        int, typer.Option(help="sim: random seed of the first board; each further one has the next number.")
    ] = 0,
    scenario: Annotated[Path | None, typer.Option(help="sim: YAML file with the faults of the boards.")] = None,
    flow: Annotated[str, typer.Option(help="sim: boot flow: normal, falcon or sbl.")] = "normal",
    stock: Annotated[
        bool,
        typer.Option(
            "--stock",
            help="As it is shipped. sim: U-Boot's environment, which loads Linux from SD; qemu: the device tree of a "
            "board that has a mended one.",
        ),
    ] = False,
    time_scale: Annotated[
        float, typer.Option(help="sim: factor on all times but the UARTs'; 1: as the real board.")
    ] = 1.0,
    foreground: Annotated[bool, typer.Option("--foreground", help="Run the bench here, until Ctrl-C.")] = False,
) -> None:
    """Bring virtual boards up, with power switch and pdudaemon.

    The boards themselves are off.
    """
    where = _folder(folder)
    types = board_type or []
    if kind == "sim":
        if bench_tools or network or name != DEFAULT_BOARD:
            raise ConfigurationError(
                "--name, --tools and --network are for `lab virtual up qemu`; simulated boards are named by their type "
                "and number, and play their benchmarks and their network"
            )
        boards = board_specs(SimOptions(types, count, release, seed, time_scale, scenario, flow, stock))
        defaults = (DEFAULT_SWITCH_PORT, 0.0, 0.0, FTDI_BYTES)
    elif kind == "qemu":
        sim_options = (count, release, seed, time_scale, scenario, flow)
        if sim_options != (1, "", 0, 1.0, None, "normal") or len(types) > 1:
            raise ConfigurationError(
                "--count, --release, --seed, --time-scale, --scenario, --flow and several types are for "
                "`lab virtual up sim`"
            )
        chosen = types[0] if types else QEMU_TYPE
        if is_simulated(chosen):
            raise ConfigurationError(f"{chosen!r} is a simulated board: `lab virtual up sim --type {chosen}`")
        kind_of_board = kinds.qemu(chosen, with_tools=bench_tools, with_network=network, stock=stock)
        boards = (BoardSpec(name, chosen, kind_of_board),)
        defaults = (0, IDLE_OFF_S, DEFAULT_LATENCY_TIMER_MS, DEFAULT_FIFO_BYTES)
    else:
        raise ConfigurationError(f"no kind {kind!r} of virtual boards; there are: qemu, sim")
    order = control.ControlOrder(
        where,
        boards,
        defaults[0] if switch_port is None else switch_port,
        pdu_port,
        defaults[1] if idle_off is None else idle_off,
        defaults[2] if latency_timer_ms is None else latency_timer_ms,
        defaults[3] if fifo_bytes is None else fifo_bytes,
        tcp_port,
        fresh,
        foreground,
    )
    state = control.up(order, lambda line: echo(line, err=True))
    board = state.boards[0]
    more = f" and {len(state.boards) - 1} more" if len(state.boards) > 1 else ""
    echo(
        f"{board.name} ({board.type}){more} up: console {next(iter(board.uarts.values()))}, pdudaemon {state.pdudaemon}"
    )
    echo(f"measure it: {measuring(where)}")


@app.command()
def down(folder: BenchFolder = None) -> None:
    """Take the virtual boards down; nothing is left running."""
    where = _folder(folder)
    echo("The virtual bench is down." if control.down(where) else f"No virtual bench runs in {where}.")


@app.command()
def status(folder: BenchFolder = None, as_json: Json = False) -> None:
    """Show the virtual boards and their state."""
    where = _folder(folder)
    state = running(where)
    boards = control.status(state) if state else []
    if as_json:
        bench = {"pid": state.pid, "http": state.http, "pdudaemon": state.pdudaemon} if state else None
        echo_json({"dir": str(where), "bench": bench, "boards": boards})
        return
    if state is None:
        echo(f"No virtual bench runs in {where}; `lab virtual up` starts one.")
        return
    echo(f"bench in {where}: pid {state.pid}, power switch {state.http}, pdudaemon {state.pdudaemon}")
    keys = ("name", "type", "outlet", "power", "straps", "overruns", "reason")
    header = ["board", "type", "outlet", "power", "straps", "lost bytes", ""]
    echo(*table(header, [[str(board[key]) for key in keys] for board in boards], "<<<<<><"))


@app.command()
def console(
    name: Annotated[str, typer.Argument(help="The board's name.")] = DEFAULT_BOARD, folder: BenchFolder = None
) -> None:
    """Open a terminal on a board's console (`lab console attach`)."""
    state = expect(_folder(folder))
    board = next((board for board in state.boards if board.name == name), None)
    if board is None:
        raise ConfigurationError(f"no board {name!r}; there are: {', '.join(b.name for b in state.boards)}")
    lab = str(Path(sys.executable).with_name("lab"))
    os.execv(lab, [lab, "console", "attach", next(iter(board.uarts.values()))])  # noqa: S606 - our own command


@app.command()
def images(
    board_type: Annotated[list[str] | None, typer.Option("--type", help="Board type; repeatable.")] = None,
) -> None:
    """Build the boards' images now (`up` does it when they are missing)."""
    for chosen in board_type or [QEMU_TYPE]:
        built = kinds.qemu(chosen).images(lambda line: echo(line, err=True))
        echo(f"Board images: {built}")


@app.command("uboot-tests")
def uboot_tests(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the tests; created if missing.")],
    board_type: Annotated[str, typer.Option("--type", help="Board type.")] = QEMU_TYPE,
) -> None:
    """Write U-Boot's own tests for a QEMU board into DIR.

    DIR gets their configuration, too (docs: U-Boot's tests).
    """
    kinds.qemu(board_type).uboot_tests(make_folder(folder), lambda line: echo(line, err=True))
    echo(f"tests: {folder / uboot.SOURCE / 'test/py'}, --build-dir {folder / uboot.BUILD}")


app.command()(faults)
app.command()(fault)
app.command()(clear)


@app.command("tester", hidden=True)
def as_tester(
    command: Annotated[str, typer.Argument(help="The command line.")],
    board_type: Annotated[str, typer.Option("--type", help="sim: type of the board at the other end.")] = "",
    release: Annotated[str, typer.Option(help="sim: of its software (default: the newest).")] = "",
    seed: Annotated[int | None, typer.Option(help="sim: random seed (default: another one each time).")] = None,
    board: Annotated[str, typer.Option(help="qemu: the board at the other end of the cable.")] = "",
    folder: BenchFolder = None,
) -> None:
    """Run a command as the tester of a virtual board.

    For a QEMU board it really runs at the other end of the cable; for a simulated board it is simulated.
    """
    if bool(board_type) == bool(board):
        raise ConfigurationError("name the board at the other end: --board NAME (qemu), or --type TYPE (sim)")
    if board_type:
        answer(command, board_type, release, seed)
    where = _folder(folder)
    names = [state.name for state in expect(where).boards]
    if board not in names:
        raise ConfigurationError(f"no board {board!r} in {where}; there are: {', '.join(names)}")
    argv = cable.enter(BoardFolder(where / board), command)
    os.execvp(argv[0], argv)  # noqa: S606 - what the caller asked for


def _folder(folder: Path | None) -> Path:
    return folder.absolute() if folder else default_folder()
