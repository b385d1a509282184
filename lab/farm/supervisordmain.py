"""supervisord, started in its own place: between two starts of a program it waits a second longer each time, and here no longer than half a minute.

It is run as a file, with the Python that has supervisord, and imports nothing of boardlab.
"""

from __future__ import annotations

from typing import Final

from supervisor import process, supervisord
from supervisor.states import ProcessStates

LONGEST_PAUSE_S: Final = 30


class PatientProgram(process.Subprocess):  # type: ignore[misc]
    """A program of supervisord's; it looks for the class by its name."""

    backoff: int

    def change_state(self, new_state: int, expected: bool = True) -> object:
        if new_state == ProcessStates.BACKOFF:
            # supervisord adds one, and waits for so many seconds.
            self.backoff = min(self.backoff, LONGEST_PAUSE_S - 1)
        return super().change_state(new_state, expected)


def main() -> None:
    """Run it, with the command line of this program."""
    process.Subprocess = PatientProgram
    supervisord.main()


if __name__ == "__main__":
    main()
