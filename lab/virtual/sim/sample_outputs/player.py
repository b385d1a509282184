"""What the played programs have in common."""

from __future__ import annotations

from collections.abc import Sequence

from lab.virtual.sim import figures
from lab.virtual.sim.linux.session import LoginSession, wait
from lab.virtual.sim.program import NS_PER_S, Program
from lab.virtual.sim.sh.interpreter import Streams


def drawn(session: LoginSession, metric: str, otherwise: float = 1.0, **params: str) -> float:
    """A published number of this board with this run's noise."""
    computer = session.computer
    dice = computer.dice("played", metric, sorted(params.items()), computer.now_ns)
    return known(session).draw(dice, metric, otherwise, **params)


def known(session: LoginSession) -> figures.PublishedValues:
    """The figures of this board."""
    model = session.computer.model
    return figures.load(model.board.name, model.release_name)


def play(session: LoginSession, streams: Streams, text: str, seconds: float) -> Program[int]:
    """Work so long, then print."""
    yield from wait(session, seconds * NS_PER_S)
    yield from streams.out(text.encode())
    return 0


def option(arguments: Sequence[str], name: str, default: str = "") -> str:
    """The word behind an option."""
    words = list(arguments)
    return words[words.index(name) + 1] if name in words[:-1] else default


def took_part(session: LoginSession, percent: float) -> None:
    """What `time -v` shall say that the program got of a core."""
    session.kernel.settings["cpu_share"] = f"{percent:.0f}"
