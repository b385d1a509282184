"""Rails whose sensors are on another host, sampled by the rails server there (`lab.rails.server`); the trace is copied as it grows."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, field, frozen

from lab.errors import ConfigurationError, LabTransientError
from lab.rails.config import RailsConfig
from lab.rails.model import Range
from lab.rails.process import START_S, STOP_S, Sampler
from lab.rails.trace import END, RECORD

CONNECT_S: Final = 15.0
_ANSWER_S: Final = 10.0  # beyond what the sampler itself may take


@frozen
class RailsServer:
    """The rails server of another host.

    Attributes:
        address: a socket of this host that leads to it. host: for messages.
    """

    address: Path
    host: str

    @contextlib.contextmanager
    def sampling(
        self, config: RailsConfig, trace_path: Path, wanted: Range = Range.ACTIVE, line: str = ""
    ) -> Iterator[Sampler]:
        """As `lab.rails.sampling`, with the stamps of that host's clock.

        Args:
            line: the time line of the stamps, see `lab.host.clock.time_line`.

        Raises:
            ConfigurationError: the configuration or the place of the trace is wrong.
            LabTransientError: the server does not answer, its sampler failed, its clock is another one (`clock_unrelated`), or the
                connection was cut; what was sampled until then is in the trace.
        """
        try:
            kept = trace_path.open("wb", buffering=0)
        except OSError as error:
            raise ConfigurationError(
                f"{trace_path}: cannot be written: {error.strerror}; choose another place"
            ) from error
        with kept, self._asked({"config": asdict(config), "range": wanted.value}, START_S) as (stream, said):
            if line and said.get("line") != line:
                raise LabTransientError(
                    f"the rails server of {self.host} stamps by another clock than the console server there: one of them is in a container, "
                    "or ran before the host was restored. Start both anew, side by side",
                    failure="clock_unrelated",
                )
            copier = _Copier(stream, kept)
            copier.start()
            try:
                copier.begun.wait(_ANSWER_S)  # a trace without its first line is none
                yield Sampler(trace_path, copier)
                was_over = copier.poll() is not None
            finally:
                copier.finish()
            if was_over or not copier.ended:
                raise LabTransientError(
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
    def _asked(self, question: dict[str, Any], takes_s: float) -> Iterator[tuple[socket.socket, dict[str, Any]]]:
        """A connection, and the server's answer."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(CONNECT_S)
            try:
                stream.connect(str(self.address))
                stream.sendall(json.dumps(question).encode() + b"\n")
                stream.settimeout(takes_s + _ANSWER_S)
                said = json.loads(_line(stream) or b"{}")
            except (OSError, ValueError) as error:
                raise self._silent(error) from error
            stream.settimeout(None)
            if not said:
                raise self._silent("it closed the connection")
            if "error" in said:
                if said.get("configuration"):
                    raise ConfigurationError(f"on {self.host}: {said['error']}")
                raise LabTransientError(f"on {self.host}: {said['error']}", failure=str(said.get("failure", "lab")))
            yield stream, said

    def _silent(self, why: object) -> LabTransientError:
        return LabTransientError(
            f"the rails server of {self.host} does not answer ({why}): `lab rails serve` must run there, beside the console server "
            "(systemctl status boardlab-rails)",
            failure="power_sampler",
        )


def _line(stream: socket.socket) -> bytes:
    """The first line, and no byte behind it."""
    line = b""
    while not line.endswith(b"\n") and (more := stream.recv(1)):
        line += more
    return line


@define(eq=False)
class _Copier:
    """A thread that writes down what comes.

    Attributes:
        ended: the trace has its end. begun: it has its first line, or never will.
    """

    stream: socket.socket
    file: Any
    ended: bool = field(default=False, init=False)
    begun: threading.Event = field(factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._copy, name="boardlab rails", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """See `SamplingProcess`."""
        return 0

    def poll(self) -> int | None:
        """See `SamplingProcess`."""
        return None if self._thread.is_alive() else 0

    def finish(self) -> None:
        """Tell the server to end, and take the rest."""
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_WR)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            with contextlib.suppress(OSError):
                self.stream.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._thread.join()

    def _copy(self) -> None:
        last = b""
        with contextlib.suppress(OSError):
            while data := self.stream.recv(1 << 16):
                self.file.write(data)
                last = (last + data)[-RECORD.size :]
                if b"\n" in data:
                    self.begun.set()
        self.begun.set()
        self.ended = len(last) == RECORD.size and RECORD.unpack(last)[3] == END
