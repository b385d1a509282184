"""Where a reader is in a port's stream, so that it gets everything once, however often it is cut off."""

from __future__ import annotations

from attrs import define, field

from lab.console.model import Chunk, Event, Gap, Lateness, RecordKind
from lab.errors import LabTransientError


@define
class Place:
    """The place of one reader.

    Attributes:
        shown: the port, for messages.
        began_ns: the server's clock when it began to read. position: of the next byte.
    """

    shown: str
    began_ns: int
    position: int
    _since_byte: list[Event] = field(factory=list, init=False)  # what came since the last byte
    _repeated: list[Event] = field(factory=list, init=False)  # what comes again after a cut

    def begin_again(self) -> None:
        """The reader attached anew at `position`: what came there and is no data comes again."""
        self._repeated = list(self._since_byte)

    def is_new(self, event: Event) -> bool:
        """Whether it did not come before the cut already; the reader is behind it then.

        Raises:
            LabTransientError: bytes before it are missing, and no gap says so.
        """
        if event.position > self.position:
            if not (isinstance(event, Gap) and event.kind is RecordKind.UNRECORDED):
                raise LabTransientError(
                    f"{self.shown}: bytes {self.position} to {event.position} of its stream did not come. Attach again; look "
                    "at the recording there for what was said",
                    failure="console_overrun",
                )
            self.position = event.position
        if isinstance(event, Chunk):
            if event.end <= self.position:
                return False
            self.position = event.end
            self._since_byte, self._repeated = [], []
            return True
        if 0 < event.t_ns < self.began_ns and not isinstance(event, Lateness):
            return False  # it lies at our first byte: told, but old
        if event in self._repeated:
            self._repeated.remove(event)
            return False
        self._since_byte.append(event)
        return True
