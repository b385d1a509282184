"""How much longer a run of sections will take, from how long each took the last time."""

from __future__ import annotations

from attrs import define


@define
class Eta:
    """What is left.

    Attributes:
        left: section -> expected duration in seconds.
    """

    left: dict[str, float]

    def done(self, section: str) -> None:
        """A section has been dealt with."""
        self.left.pop(section, None)

    def __str__(self) -> str:
        minutes, seconds = divmod(round(sum(self.left.values())), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}"
