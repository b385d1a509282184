"""Titles of a board, its media and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from attrs import define

from lab import boards
from lab.metrics import Metric
from lab.results.formatting import label
from lab.results.listing import STAGE
from lab.results.records import RunHead

_MODE: Final = "mode"  # the parameter that the numbers of low power are told apart by
_SECTION: Final = "section"  # the parameter of attempts at a row of a section
_SPELLED: Final = {"cpu": "CPU", "io": "I/O", "mcu": "MCU", "openssl": "OpenSSL", "tcp": "TCP", "udp": "UDP"}
_BY_THEMSELVES: Final = {"boot", "lpm"}  # whose metrics need not say so


@define(slots=False)
class Names:
    """Titles of the board and its media.

    They are the bare names where this boardlab has no such board type.
    """

    run: RunHead

    @cached_property
    def board(self) -> str:
        """The board type's title."""
        return boards.load(self.run.board_type).title if self._known else self.run.board_type

    @cached_property
    def virtual(self) -> str:
        """The SoC that the virtual board simulates."""
        return boards.load(self.run.board_type).soc if self._known else self.run.board_type

    @cached_property
    def media(self) -> dict[str, str]:
        """Medium -> title."""
        if not self._known:
            return {}
        return {name: medium.title for name, medium in boards.load(self.run.board_type).media.items()}

    @property
    def kind(self) -> str:
        """The kind of the run as a title."""
        return {"boot": "Boot time", "sections": "Benchmarks", "measure": "Measurements"}.get(self.run.kind) or _words(
            self.run.kind
        )

    @property
    def rows(self) -> str:
        """The title of a table's first column."""
        return "Boot medium" if self.run.kind == "boot" else "Measured"

    def of(self, params: Mapping[str, str]) -> str:
        """The title of these parameters."""
        if _SECTION in params and len(params) > 1:
            others = (f"{name}={value}" for name, value in sorted(params.items()) if name != _SECTION)
            return ", ".join([params[_SECTION], *others])
        if STAGE in params:  # "Kernel, SD"
            where = self.of({name: value for name, value in params.items() if name != STAGE})
            return ", ".join(filter(None, (params[STAGE], where)))
        if len(params) > 1 and "medium" in params:  # "SD, init /bin/sh"
            medium = params["medium"]
            others = (f"{name} {value}" for name, value in sorted(params.items()) if name != "medium")
            return ", ".join([self.media.get(medium, medium), *others])
        title = self.media.get(label(params))
        if title is not None or self.run.kind != "low_power" or _MODE not in params:
            return title or label(params)
        rest = (f"{name} {value}" for name, value in sorted(params.items()) if name != _MODE)
        return ", ".join([_words(params[_MODE]), *rest])

    def number(self, metric: Metric, params: Mapping[str, str]) -> str:
        """The title of a number, with its parameters."""
        title, of = "" if STAGE in params else title_of(metric), self.of(params)
        if _MODE in params and f".{params[_MODE]}." in metric.name:
            of = of.removeprefix(_words(params[_MODE])).removeprefix(", ")
        return ", ".join(filter(None, (title, of)))

    @property
    def _known(self) -> bool:
        return self.run.board_type in boards.names()


def title_of(metric: Metric) -> str:
    """A metric's title, e.g. "Boot time" for "boot.time".

    "boot.power_on_to_prompt" is "Power on to prompt", "lpm.deep_sleep.resume_kernel" "Deep sleep, resume kernel",
    "ethernet.tcp.cpu_load" "Ethernet, TCP, CPU load".
    """
    room, _, name = metric.name.partition(".")
    if name == "time":
        return _words(f"{room} {name}")
    return _words(name if room in _BY_THEMSELVES else metric.name)


def _words(name: str) -> str:
    """A name as the beginning of a sentence."""
    parts = (" ".join(_SPELLED.get(word, word) for word in part.split("_")) for part in name.split("."))
    words = ", ".join(part for part in parts if part)
    return words[:1].upper() + words[1:]
