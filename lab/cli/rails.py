"""`lab rails`: sample and show rails, and test their sensors."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import typer
import yaml
from attrs import asdict
from rich.live import Live
from rich.text import Text

from lab import boards, figures
from lab.cli.options import BoardEnv, Json, Runtime
from lab.console.recording import Recording
from lab.console.replay import guess_board, replay
from lab.env import envfile
from lab.errors import ConfigurationError, LabStableError
from lab.figures import draw
from lab.figures.power import power_figure
from lab.host.clock import MonotonicRaw
from lab.host.runtime import runtime_dir
from lab.metrics import Moment
from lab.rails import AdcRange, RailsConfig, Trace, from_env, live, sampling, selftest, server
from lab.rails.live import Now
from lab.rails.model import PhasePower, RailPower
from lab.rails.phase import StagePower, cut, samples_of, stages
from lab.rails.selftest import SensorCheck
from lab.results.formatting import format_fixed
from lab.terminal import bad, doubtful, echo, echo_json, echo_text, log_to, plain_text, table, until_closed

app = typer.Typer(help="Supply rails: sample them, watch them, test their sensors.", no_args_is_help=True)

BenchConfig = Annotated[
    AdcRange,
    typer.Option("--range", help="active: a running board, 1 kHz; sleep: milliwatts, averaged over a second."),
]
Plot = Annotated[Path | None, typer.Option(metavar="SVG", help="Draw the rails, stacked.")]
Console = Annotated[
    Path | None,
    typer.Option(metavar="RECORDING", help="Cut the trace at the moments of this console recording, and mark them."),
]
_REFRESH_S: Final = 0.5
_POINTS: Final = 800  # as many as the picture of a trace has columns
_NA: Final = "n/a"
Floats: TypeAlias = npt.NDArray[np.float64]


@app.command()
def trace(
    env: BoardEnv,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The trace.")] = Path("power.trace"),
    seconds: Annotated[float, typer.Option(help="Duration in seconds; 0: until Ctrl-C.")] = 0.0,
    wanted: BenchConfig = AdcRange.ACTIVE,
    plot: Plot = None,
    console: Console = None,
    as_json: Json = False,
) -> None:
    """Sample a board's rails into a file, and print their power."""
    config = config_of(env)
    try:
        with sampling(config, output, wanted) as sampler:
            end_s = time.monotonic() + seconds
            while sampler.alive and (not seconds or time.monotonic() < end_s):
                time.sleep(min(_REFRESH_S, max(0.0, end_s - time.monotonic()) if seconds else _REFRESH_S))
    except KeyboardInterrupt:
        echo(f"ended; the trace is in {output}", err=True)
    power_trace = Trace.open(output)
    _show(power_trace, power_trace.span_ns, plot, console, as_json=as_json)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A trace of `lab rails trace`.")],
    *,
    start: Annotated[float, typer.Option("--from", help="Seconds into the trace.")] = 0.0,
    end: Annotated[float | None, typer.Option("--to", help="Seconds into the trace (default: its end).")] = None,
    guide: Annotated[bool, typer.Option("--guide", help="Print the performance guide's table.")] = False,
    plot: Plot = None,
    console: Console = None,
    as_json: Json = False,
) -> None:
    """Print a trace's power and energy, or those of a part."""
    power_trace = Trace.open(file)
    first_ns, last_ns = power_trace.span_ns
    span = first_ns + round(start * 1e9), last_ns if end is None else first_ns + round(end * 1e9)
    _show(power_trace, span, plot, console, as_json=as_json, as_guide=guide)


@app.command()
def watch(env: BoardEnv, *, wanted: BenchConfig = AdcRange.ACTIVE, as_json: Json = False) -> None:
    """Show the power of the rails, until Ctrl-C. Nothing is stored. JSON is one line a look."""
    config = config_of(env)
    inputs = {rail.name for rail in config.rails if rail.input}
    looks = live.watch(config, wanted, MonotonicRaw(), _REFRESH_S)
    if as_json:
        with until_closed():
            for rails in looks:
                echo_text(json.dumps([asdict(rail) for rail in rails]))
        return
    views = ("\n".join(watch_lines(now, inputs)) for now in looks)
    if not sys.stdout.isatty():
        with until_closed():
            for view in views:
                echo_text(view + "\n")
        return
    with Live(auto_refresh=False) as screen:
        for view in views:
            screen.update(Text(plain_text(view)), refresh=True)


@app.command("serve", hidden=True)
def serve_(
    *,
    runtime: Runtime = None,
) -> None:
    """Sample this host's sensors for other hosts.

    They measure with `at: console`. It ends at SIGTERM or Ctrl-C.
    """
    log_to(sys.stderr)
    with suppress(KeyboardInterrupt):
        server.serve((runtime or runtime_dir()).absolute())


@app.command("selftest")
def selftest_(
    env: BoardEnv,
    *,
    zero: Annotated[
        bool, typer.Option("--zero", help="With the board off: measure the sensors' offsets, for `offset_uv`.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read every bus voltage to find silent or swapped sensors.

    The board must be on.
    """
    config = config_of(env)
    if zero:
        offsets = selftest.zero(config, MonotonicRaw())
        if as_json:
            echo_json(offsets)
        else:
            offsets_uv = {name: {"offset_uv": value} for name, value in offsets.items()}
            echo_text(yaml.safe_dump(offsets_uv, sort_keys=False), end="")
        return
    answers = selftest.run(config, MonotonicRaw())
    if as_json:
        echo_json([asdict(answer) for answer in answers])
    else:
        echo(*answer_lines(answers))
    bad = [answer.rail for answer in answers if not answer.good]
    if bad:
        raise LabStableError(f"{len(bad)} of {len(config.measured)} rails cannot be measured: {', '.join(bad)}")


def config_of(env: str) -> RailsConfig:
    path = envfile.find(env, Path.cwd())
    envfile.check(path)
    sensors = envfile.arguments_of(path, "RailSensors", "resources")
    strategy = envfile.arguments_of(path, "BoardStrategy")
    if not sensors:
        raise ConfigurationError(f"{path}: it has no RailSensors among its resources; docs/rails.md shows one")
    if sensors.get("at") and envfile.arguments_of(path, "RemotePlace", "resources"):
        raise ConfigurationError(
            f"{path}: its sensors are on the host of the board's console; this looks at sensors of the host that it "
            "runs on: run it there"
        )
    arguments = {key: value for key, value in sensors.items() if key not in {"cls", "name", "at"}}
    arguments.setdefault("rails", {})
    board_type = boards.load(str(strategy.get("board_type", "")))
    return from_env(board=str(strategy.get("board", "")), board_type=board_type, **arguments)


def _show(  # what `trace` and `show` have in common
    power_trace: Trace,
    span: tuple[int, int],
    plot: Path | None,
    console: Path | None,
    *,
    as_json: bool,
    as_guide: bool = False,
) -> None:
    power = cut(power_trace, *span)
    moments = _moments(console)
    if as_json:
        echo_json(document(power, power_trace.meta.provenance()))
    elif as_guide:
        echo(*guide_lines(power))
    else:
        echo(*phase_lines(power))
        state = "complete" if power_trace.ended else "the sampler was killed, or still writes"
        echo(f"{power_trace.meta.settings}; {state}")
        boot = stages(power_trace, moments)
        if boot:
            echo("", *stage_lines(boot))
    if plot is not None:
        figures.write(plot, draw_stack(power_trace, moments), "--plot")


def _moments(console: Path | None) -> tuple[Moment, ...]:
    if console is None:
        return ()
    recording = Recording.open(console)
    board = guess_board(recording, [boards.load(name) for name in boards.names()])
    return replay(recording, board).moments


def phase_lines(power: PhasePower) -> list[str]:
    """Table of a phase: the guide's columns, uncertainty and flags."""
    header = ["Rail name", "Rail voltage(V)", "Power (mW)", "±", "min", "max", "Energy (mJ)", "samples", "flags"]
    rows = [_row(rail) for rail in (*power.rails, power.total)]
    return table(header, rows, "<>>>>>>><")


def stage_lines(boot: Sequence[StagePower]) -> list[str]:
    """Stages of a boot as a table."""
    header = ["from", "to", "seconds", "Power (mW)", "±", "Energy (mJ)", "±", "flags"]
    rows = []
    for stage in boot:
        total = stage.power.total
        rows.append(
            [
                stage.start,
                stage.end,
                f"{(stage.power.end_ns - stage.power.start_ns) / 1e9:.3f}",
                _number(total.mean_w, 1000, 1),
                _number(total.uncertainty_w, 1000, 1),
                _number(total.energy_j, 1000, 1),
                _number(total.energy_uncertainty_j, 1000, 1),
                doubtful(", ".join(sorted(total.flags))),
            ]
        )
    return table(header, rows, "<<>>>>><")


def guide_lines(power: PhasePower) -> list[str]:
    """CSV lines of a phase in the performance guide's format.

    The total is that of the unrounded rails.
    """
    lines = ['"Rail name","Rail voltage(V)","Power (mW)"']
    for rail in power.rails:
        shown = _number(rail.mean_w, 1000, 2) if rail.measured else _NA
        lines.append(f'"{rail.rail}","{rail.volts:.2f}","{shown}"')
    lines.append(f'"Total"," ","{_number(power.total.mean_w, 1000, 2)}"')
    return lines


def watch_lines(rails: Sequence[Now], inputs: Collection[str] = ()) -> list[str]:
    """Table of the rails' present power; `inputs` are not in the total."""
    rows = [[now.rail, _number(now.volts, 1, 3), _number(now.watts, 1000, 2), bad(now.text)] for now in rails]
    rows.append(["total", "", _number(sum(now.watts or 0.0 for now in rails if now.rail not in inputs), 1000, 2), ""])
    return table(["Rail name", "V", "mW", ""], rows, "<>><")


def answer_lines(answers: Sequence[SensorCheck]) -> list[str]:
    """The self-test as a table."""
    rows = [
        [
            answer.where,
            answer.rail or "-",
            f"{answer.expected_v:g}" if answer.rail else "-",
            _number(answer.volts, 1, 3),
            _number(answer.shunt_uv, 1, 1),
            answer.verdict if answer.good else bad(answer.verdict),
        ]
        for answer in answers
    ]
    return table(["address", "rail", "expected V", "reads V", "shunt uV", ""], rows, "<<>>><")


def document(power: PhasePower, provenance: Mapping[str, object]) -> dict[str, Any]:
    """A phase for JSON."""
    return {
        **asdict(
            power, value_serializer=lambda _i, _f, value: sorted(value) if isinstance(value, frozenset) else value
        ),
        "provenance": dict(provenance),
    }


def _row(rail: RailPower) -> list[str]:
    volts = f"{rail.volts:.2f}" if rail.volts else ""
    if not rail.measured:
        return [rail.rail, volts, _NA, "", "", "", "", "", ""]
    return [
        rail.rail,
        volts,
        _number(rail.mean_w, 1000, 2),
        _number(rail.uncertainty_w, 1000, 2),
        _number(rail.min_w, 1000, 2),
        _number(rail.max_w, 1000, 2),
        _number(rail.energy_j, 1000, 3),
        f"{rail.samples}/{rail.expected}",
        doubtful(", ".join(sorted(rail.flags))),
    ]


def _number(value: float | None, factor: float, decimals: int) -> str:
    return "-" if value is None else format_fixed(value * factor, decimals)


def draw_stack(trace: Trace, moments: Sequence[Moment] = ()) -> str:
    """SVG of a trace's stacked rails, with the console's moments.

    Where there are more samples than columns, each column shows their mean.

    Raises:
        ConfigurationError: the trace has too few samples.
    """
    start_ns, end_ns = trace.span_ns
    edges = np.linspace(start_ns, end_ns, min(_POINTS, max(2, len(trace.records) // len(trace.meta.channels))))
    watts = {c.rail: [float(w) for w in _bin_power(trace, n, edges)] for n, c in enumerate(trace.meta.channels)}
    times_ns = [float(t) for t in (edges[:-1] + edges[1:]) / 2]
    figure = power_figure(f"Rails of {trace.meta.board}, stacked", times_ns, watts, moments, stacked=True)
    if figure is None:
        raise ConfigurationError(f"{trace.path}: too few samples for a picture; sample longer")
    return draw("trace", figure, True)


def _bin_power(trace: Trace, number: int, edges: Floats) -> Floats:
    """Mean power in watt between edges; empty columns are interpolated."""
    samples = samples_of(trace, number)
    sums, _ = np.histogram(samples.centre_ns, edges, weights=samples.power_w)
    counts, _ = np.histogram(samples.centre_ns, edges)
    filled = counts > 0
    if not filled.any():
        return np.zeros(len(counts))
    columns = np.arange(len(counts))
    means: Floats = np.interp(columns, columns[filled], sums[filled] / counts[filled])
    return means
