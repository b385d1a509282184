"""A provisioning that is cut short, and the next try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.errors import BoardlabError, LabTransientError
from support.simprovision import NEW, Provisioning, provisioning

WAYS = [("ospi", "tftp"), ("emmc", "tftp"), ("ospi", "console"), ("emmc", "usb")]


class KilledError(BaseException):
    """Stands for kill -9 of the process: nobody catches it."""


def _kill(_made: Provisioning) -> None:
    raise KilledError


def _power(made: Provisioning) -> None:
    made.lab.off()


def _console(_made: Provisioning) -> None:
    raise LabTransientError("the console server is gone", failure="console_server_gone")


ENDS: dict[str, Callable[[Provisioning], None]] = {"killed": _kill, "power": _power, "console": _console}


def duration_ns(folder: Path, medium: str, over: str) -> tuple[int, int]:
    """When a provisioning that nobody disturbs begins and ends, in virtual time."""
    with provisioning(folder, medium, over) as made:
        began_ns = made.lab.now_ns
        made.provision()
        return began_ns, made.lab.now_ns


def cut(folder: Path, medium: str, over: str, at_ns: int, end: str) -> tuple[str, str]:
    """Cut a provisioning short at that time; what came of it, and of the next try.

    A board that lost its power says nothing more, and gets it back by the next try's power cycle.
    """
    with provisioning(folder, medium, over) as made:
        before = made.elsewhere()
        struck = list[str]()

        def strike() -> None:
            struck.append(end)
            ENDS[end](made)

        made.lab.strike_ns, made.lab.strike = at_ns, strike
        try:
            made.provision()
            first = "ok"
        except KilledError:
            first = "killed"
            made.end()  # another process knows nothing of the board's state
        except BoardlabError as error:
            first = error.failure
        assert struck == [end], f"it ended at {made.lab.now_ns}, before the strike at {at_ns}"
        assert first != "ok" or end == "power"  # a board that is off when its power goes misses nothing
        assert made.elsewhere() == before
        second = made.told(tries=1)[0]
        assert made.elsewhere() == before
        assert second.outcome != "ok" or made.boots(NEW)
        return first, f"{second.outcome} {second.message}".strip()
