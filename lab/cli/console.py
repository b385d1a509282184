"""`lab console`: the server, ports as they are now, and recordings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from attrs import asdict

from lab.cli.options import Json, ServerRuntime
from lab.console import terminal
from lab.console.client import ConsoleClient
from lab.console.lookup import attach_to_port, last_lines, wait_for_writer
from lab.console.recording import Recording
from lab.console.terminal import LINGER_S, TIMEOUT_S, Ending, LiveText, Terminal
from lab.errors import ConfigurationError, LabTransientError
from lab.host.runtime import prepare, runtime_dir, socket_path
from lab.terminal import echo, echo_json, echo_text

app = typer.Typer(help="Serial consoles: server, live view, recordings and their replay.", no_args_is_help=True)


@app.command("list")
def list_ports(*, as_json: Json = False, runtime: ServerRuntime = None) -> None:
    """List the server's ports with boards, readers and errors."""
    with _connect(runtime) as client:
        state = client.status()
    if as_json:
        echo_json(asdict(state))
    else:
        echo(*terminal.status_lines(state))


@app.command()
def serve(*, runtime: ServerRuntime = None) -> None:
    """Run the console server here, until Ctrl-C.

    A measurement starts one by itself if none runs.
    """
    from lab.console.server import serve as serve_here  # noqa: PLC0415 - see `attach`

    folder = prepare(runtime or runtime_dir())
    serve_here(folder, ready=lambda: echo(f"serving {socket_path(folder)}"))


@app.command()
def stop(*, runtime: ServerRuntime = None) -> None:
    """End the server; its recordings stay."""
    try:
        client = _connect(runtime)
    except LabTransientError:
        echo("no console server runs")
        return
    with client:
        client.stop()
    echo("stopped")


def _connect(runtime: Path | None) -> ConsoleClient:
    return ConsoleClient(socket_path(runtime or runtime_dir()))


File = Annotated[Path, typer.Argument(metavar="FILE", help="The .log or the .idx of a recording.")]


@app.command()
def replay(
    file: File,
    *,
    board: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The board type (default: the one that fits best).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the moments of a recorded boot, with the times between them."""
    from lab import boards  # noqa: PLC0415 - see `attach`
    from lab.console.replay import guess_board  # noqa: PLC0415
    from lab.console.replay import replay as replay_recording  # noqa: PLC0415

    recording = Recording.open(file)
    if board is None:
        kind = guess_board(recording, [boards.load(name) for name in boards.names()])
    else:
        kind = boards.load(board)
    result = replay_recording(recording, kind)
    if as_json:
        echo_json(result.document())
    else:
        echo(*terminal.replay_lines(result))


@app.command()
def show(file: File, *, raw: Annotated[bool, typer.Option("--raw", help="The bytes as they came.")] = False) -> None:
    """Print a recording, each line with the time since the first one."""
    recording = Recording.open(file)
    if raw:
        sys.stdout.buffer.write(recording.log)
        return
    for line in terminal.log_lines(recording):
        echo(line)


@app.command()
def truth(
    file: File,
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="sigrok's CSV of the console's line.")],
    *,
    channel: Annotated[str, typer.Option(metavar="NAME", help="The channel that the board's TX is on.")],
    as_json: Json = False,
) -> None:
    """Hold a recording's stamps against a logic analyser's capture of the line.

    Exits with 1 when a stamp is farther from the truth than its ± says.
    """
    from lab.console import analyser  # noqa: PLC0415 - see `attach`

    recording = Recording.open(file)
    channels = analyser.read(capture)
    if channel not in channels:
        raise ConfigurationError(f"{capture} has no channel {channel!r}; it has: {', '.join(channels)}")
    check_result = analyser.check(
        recording, analyser.uart(channels[channel], recording.meta.timing.speed_bd), f"{capture}, channel {channel}"
    )
    if as_json:
        echo_json(asdict(check_result))
    else:
        echo(
            f"{check_result.reads - len(check_result.beyond_ns)} of {check_result.reads} reads agree within their ±; "
            f"the clocks' offset is known to {check_result.slack_ns / 1e3:.0f} us"
        )
        if check_result.beyond_ns:
            echo(
                "the farthest are "
                f"{', '.join(f'{excess_ns / 1e3:.0f} us' for excess_ns in check_result.beyond_ns[:5])} beyond it"
            )
    if check_result.beyond_ns:
        raise typer.Exit(NOT_ALL_FIT)


NOT_ALL_FIT = 1


@app.command()
def check(
    board_type: Annotated[str, typer.Argument(metavar="TYPE", help="The board type, or its .toml file.")],
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Console logs, one boot each; no stamps.")],
    *,
    as_json: Json = False,
) -> None:
    """Check a board type against the logs of boots.

    Prints the findings of each log, and the texts that the type's patterns miss. Exits with 0 when the type fits all
    logs, with 1 when it does not fit one, with 2 when a log or the type cannot be read.
    """
    from lab import boards  # noqa: PLC0415 - see `attach`
    from lab.run.check import output  # noqa: PLC0415
    from lab.run.check.bare_log import read  # noqa: PLC0415
    from lab.run.check.findings import examine  # noqa: PLC0415
    from lab.run.check.verdict import Fit, judge  # noqa: PLC0415

    board = boards.load_file(Path(board_type)) if board_type.endswith(".toml") else boards.load(board_type)
    all_findings = [examine(read(path, board), board) for path in logs]
    verdicts = [judge(findings) for findings in all_findings]
    pairs = list(zip(all_findings, verdicts, strict=True))
    if as_json:
        echo_json([output.document(findings, verdict) for findings, verdict in pairs])
    else:
        for number, (findings, verdict) in enumerate(pairs):
            echo(*([""] if number else []), *output.lines(findings, verdict))
    if any(verdict.fit is not Fit.WHOLE for verdict in verdicts):
        raise typer.Exit(NOT_ALL_FIT)


NOT_SEEN: Final = 3  # exit status

Port = Annotated[
    str,
    typer.Argument(
        metavar="PORT", help="A device, e.g. /dev/ttyUSB0; or a port or a board, as `lab console list` names it."
    ),
]
Backlog = Annotated[
    int, typer.Option(min=0, max=1_000_000, metavar="N", help="Print the last N lines that came before, too.")
]


@app.command()
def tail(
    port: Port,
    *,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as they come.")] = False,
    backlog: Backlog = 0,
    runtime: ServerRuntime = None,
) -> None:
    """Print a port's output, until Ctrl-C.

    Other readers are not affected.
    """
    client, info = attach_to_port(port, runtime)
    with client:
        text = LiveText()
        data = last_lines(info, backlog) if backlog else b""
        while True:
            if raw:
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            else:
                echo_text(text.feed(data), end="")
            chunk = client.read(timeout_s=60.0)
            data = b"" if chunk is None else chunk.data


@app.command()
def attach(
    port: Port,
    *,
    speed: Annotated[
        int | None, typer.Option(min=1, max=100_000_000, help="Baud rate (default: as the port is open, else 115200).")
    ] = None,
    backlog: Backlog = 0,
    lines: Annotated[
        bool, typer.Option("--lines", help="Send whole lines, and show text without terminal control sequences.")
    ] = False,
    until: Annotated[
        str | None, typer.Option(metavar="REGEX", help="End when this comes; exit status 3 when it does not.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="With --until: wait this long after the last input.")
    ] = TIMEOUT_S,
    linger: Annotated[
        float,
        typer.Option(min=0.0, metavar="S", help="After the end of the input: stay until nothing came for this long."),
    ] = LINGER_S,
    runtime: ServerRuntime = None,
) -> None:
    """Open a terminal on a port, through the console server.

    The server goes on recording, and tests can follow. Ctrl-] ends the terminal.

    Exit status: 0 done; 1 the server or the port is gone, or another client writes to it; 2 a wrong option; 3 the text
    of --until did not come.
    """
    ending = Ending(None if until is None else _compile(until), timeout, linger)
    client, info = attach_to_port(port, runtime, write=True, speed_bd=speed)
    with client:
        terminal = Terminal(client, ending, lines)
        if sys.stdin.isatty():
            echo(f"{info.meta.device} at {info.meta.speed_bd} Bd; {'Ctrl-D' if lines else 'Ctrl-]'} ends", err=True)
        if backlog:
            terminal.show(last_lines(info, backlog))
        has_come = terminal.run()
        if sys.stdin.isatty():
            echo("", err=True)
    if not has_come:
        echo_text(f"error: {until!r} did not come within {timeout:g} s", err=True)
        raise typer.Exit(NOT_SEEN)


@app.command()
def wait(
    port: Port,
    *,
    timeout: Annotated[float, typer.Option(min=0.0, metavar="S", help="Wait this long at most.")] = TIMEOUT_S,
    runtime: ServerRuntime = None,
) -> None:
    """Wait until a client can type at a port.

    The client is `attach` or a measurement. A board may be switched on then.

    Exit status: 0 a client can; 3 none came in time.
    """
    writer = wait_for_writer(port, timeout, runtime)
    if writer is None:
        echo_text(f"error: no client has attached to {port} within {timeout:g} s", err=True)
        raise typer.Exit(NOT_SEEN)
    echo(f"process {writer} is attached to {port}")


def _compile(until: str) -> re.Pattern[bytes]:
    try:
        return re.compile(until.encode(), re.MULTILINE)
    except re.error as error:
        raise ConfigurationError(f"--until {until!r} is no regular expression: {error}") from error
