"""Rails whose sensors are on another host, sampled by the rails server there (`lab.rails.server`); the trace is copied as it grows."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.host import process, runtime
from lab.host.clock import MonotonicRaw
from lab.host.runtime import SamplerStatus
from lab.host.tcp import connected, first_line
from lab.rails.config import RailsConfig
from lab.rails.copying import PATIENCE_S, Connection, Copier, SilentServerError
from lab.rails.model import Range
from lab.rails.process import LAG_S, START_S, Sampler

CONNECT_S: Final = 15.0
_LINE_BYTES: Final = 1 << 20
_ANSWER_S: Final = 10.0  # beyond what the sampler itself may take


@frozen
class RailsServer:
    """The rails server of another host.

    Attributes:
        connect: makes a connection that leads to it, within so many seconds; anew where the last one was cut. host: for messages.
        runtime: this host's runtime folder, in which who looks on is told of the trace that grows; None: nobody is.
        patience_s: how long a cut of the connection may last.
    """

    connect: Callable[[float], Connection]
    host: str
    runtime: Path | None = None
    patience_s: float = PATIENCE_S

    @contextlib.contextmanager
    def sampling(
        self, config: RailsConfig, trace_path: Path, wanted: Range = Range.ACTIVE, line: str = ""
    ) -> Iterator[Sampler]:
        """As `lab.rails.sampling`, with the stamps of that host's clock. A cut of the connection of up to `patience_s` costs no sample.

        Args:
            line: the time line of the stamps, see `lab.host.clock.time_line`.

        Raises:
            ConfigurationError: the configuration or the place of the trace is wrong.
            LabTransientError: the server does not answer, its sampler failed, its clock is another one (`clock_unrelated`), or the
                connection was cut for too long; what was sampled until then is in the trace.
        """
        try:
            kept = trace_path.open("wb", buffering=0)
        except OSError as error:
            raise ConfigurationError(
                f"{trace_path}: cannot be written: {error.strerror}; choose another place"
            ) from error
        question = {"config": asdict(config), "range": wanted.value, "keeps": True}
        with kept, self._asked(question, START_S) as (stream, said):
            here_ns = MonotonicRaw().now_ns()
            if line and said.get("line") != line:
                raise LabTransientError(
                    f"the rails server of {self.host} stamps by another clock than the console server there: one of them is in a container, "
                    "or ran before the host was restored. Start both anew, side by side",
                    failure="clock_unrelated",
                )
            copier = Copier(stream, kept, str(said.get("trace", "")), self._again, self.patience_s)
            copier.start()
            try:
                copier.begun.wait(_ANSWER_S)  # a trace without its first line is none
                ahead_ns = int(said.get("now_ns", here_ns)) - here_ns
                with self._told(SamplerStatus(config.board, str(trace_path.absolute()), process.identity(), ahead_ns)):
                    yield Sampler(trace_path, copier, LAG_S + self.patience_s)
                was_over = copier.poll() is not None
            finally:
                copier.finish()
            if was_over or not copier.ended:
                raise copier.why or LabTransientError(
                    f"the power sampler on {self.host} ended on the way, or the connection to it did; what came is in its trace. The log of "
                    "`lab rails serve` there says more",
                    failure="power_sampler",
                )

    def volts(self, config: RailsConfig, seconds: float) -> dict[str, float]:
        """As `lab.drivers.railsdriver.RailsDriver.volts`.

        Raises:
            ConfigurationError, LabTransientError: as `sampling`.
        """
        asked = {"config": asdict(config), "range": Range.ACTIVE.value, "seconds": seconds}
        with self._asked(asked, seconds) as (_, said):
            return {str(rail): float(volts) for rail, volts in said.get("volts", {}).items()}

    @contextlib.contextmanager
    def _asked(self, question: dict[str, Any], takes_s: float) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """A connection, and the server's answer; it is closed at the end."""
        stream, said = self._answered(question, takes_s)
        with contextlib.closing(stream):
            yield stream, said

    def _again(self, name: str, offset: int) -> Connection:
        """A new connection to a sampling, from this byte of its trace on.

        Raises:
            ConfigurationError, LabTransientError: as `sampling`; SilentServerError, or `console_link`: it may come back.
        """
        return self._answered({"resume": name, "offset": offset}, 0.0)[0]

    def _answered(self, question: dict[str, Any], takes_s: float) -> tuple[Connection, dict[str, Any]]:
        with contextlib.ExitStack() as unless_good:
            try:
                stream = unless_good.enter_context(contextlib.closing(self.connect(CONNECT_S)))
                stream.sendall(json.dumps(question).encode() + b"\n")
                stream.settimeout(takes_s + _ANSWER_S)
                said = json.loads(first_line(stream.recv, _LINE_BYTES) or b"{}")
            except (OSError, ValueError) as error:
                raise self._silent(error) from error
            stream.settimeout(None)
            if not said:
                raise self._silent("it closed the connection")
            if "error" in said:
                if said.get("configuration"):
                    raise ConfigurationError(f"on {self.host}: {said['error']}")
                raise LabTransientError(f"on {self.host}: {said['error']}", failure=str(said.get("failure", "lab")))
            unless_good.pop_all()
        return stream, said

    def _silent(self, why: object) -> SilentServerError:
        return SilentServerError(
            f"the rails server of {self.host} does not answer ({why}): `lab rails serve` must run there, beside the console server "
            "(systemctl status boardlab-rails)",
            failure="power_sampler",
        )

    @contextlib.contextmanager
    def _told(self, status: SamplerStatus) -> Iterator[None]:
        if self.runtime is None:
            yield
            return
        folder = self.runtime / runtime.SAMPLERS
        runtime.write(folder, status.board, status)
        try:
            yield
        finally:
            runtime.forget(folder, status.board, status)


def by_socket(reach: Callable[[], Path]) -> Callable[[float], socket.socket]:
    """How to connect where a socket of this host leads there; `reach` makes it anew where that is needed."""

    return lambda timeout_s: connected(reach(), timeout_s)
