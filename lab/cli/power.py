"""`lab power`: switch a board on or off; ask for its power."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer
from attrs import asdict

from lab.cli.options import BoardEnv, Json
from lab.env.power_state import PowerState, supply_of
from lab.errors import LabTransientError
from lab.terminal import echo, echo_json

app = typer.Typer(help="Switch a board on or off, and ask for its power.", no_args_is_help=True)


@app.command()
def on(env: BoardEnv, *, as_json: Json = False) -> None:
    """Switch a board on, and confirm that it has power."""
    supply = supply_of(env)
    supply.switch.on()
    _verify(supply.settle(on=True), on=True, as_json=as_json)


@app.command()
def off(env: BoardEnv, *, as_json: Json = False) -> None:
    """Switch a board off, and verify that it has no power.

    A measurement under way fails (`power_lost`).
    """
    supply = supply_of(env)
    supply.switch.off()
    _verify(supply.settle(on=False), on=False, as_json=as_json)


@app.command()
def cycle(
    env: BoardEnv,
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, max=3600.0, help="Between off and on (default: as the board type says).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Switch a board off and on again, and verify its power."""
    supply = supply_of(env)
    supply.switch.off()
    time.sleep(supply.discharge_s if seconds is None else seconds)
    supply.switch.on()
    _verify(supply.settle(on=True), on=True, as_json=as_json)


@app.command()
def state(env: BoardEnv, *, as_json: Json = False) -> None:
    """Ask whether a board has power. Nothing is switched."""
    power = supply_of(env).read()
    if as_json:
        echo_json(_document(power))
        return
    last = (
        f"{power.last_command} at {datetime.fromtimestamp(power.last_command_at, UTC):%F %T} UTC"
        if power.last_command
        else "nothing"
    )
    echo(
        f"{power.board}: {_word(power.on)}",
        f"outlet:     {_outlet(power)}",
        f"switch:     {power.switch_says}",
        f"rails:      {_rails(power) or 'not known'}",
        f"last told:  {last}",
    )


def _verify(power: PowerState, *, on: bool, as_json: bool) -> None:
    """Print the verified outcome of a switching.

    Raises:
        LabTransientError: the rails or the switch show the opposite.
    """
    state_word, switch = _word(on), f"the power switch ({_outlet(power)})"
    readings = [f"its rails read {_rails(power)}"] if power.volts else []
    readings += [f"{switch} says {power.switch_says}"] if power.switch_says in {"on", "off"} else []
    if power.on is not None and power.on is not on:
        raise LabTransientError(
            f"{power.board} was told to switch {state_word}, and is not: {'; '.join(readings)}. Is the outlet the "
            "board's, does "
            "its relay move, and does nothing else feed it?",
            failure=f"power_{state_word}_ineffective",
        )
    if as_json:
        echo_json(_document(power))
        return
    if readings:
        echo(f"{power.board}: {state_word}. Verified: {'; '.join(readings)}")
    else:
        why = f"it {power.switch_says}; no rails of the board are read"
        echo(f"{power.board}: told to switch {state_word}, and {switch} obeyed. Not verified: {why}")


def _document(power: PowerState) -> dict[str, object]:
    """Document for --json, with the keys that scripts read."""
    keys = {"last_command": "told", "last_command_at": "told_at"}
    return {keys.get(name, name): value for name, value in asdict(power).items()}


def _rails(power: PowerState) -> str:
    """The lowest and the highest one."""
    return f"{min(power.volts.values()):.2f} to {max(power.volts.values()):.2f} V" if power.volts else ""


def _outlet(power: PowerState) -> str:
    return f"{power.pdu} {power.outlet}" + (f" at {power.server}" if power.server else "")


def _word(on: bool | None) -> str:
    return {True: "on", False: "off", None: "nobody can tell"}[on]
