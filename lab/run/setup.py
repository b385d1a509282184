"""What surrounds the numbers of a section run: the governor, the clock, the cards and the tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import define, field

from lab.benchmarks.section import Bench
from lab.metrics import Flag

_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_CLOCK = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
_CLOCK_SHARE = 0.01  # of the nominal clock
_TOOLS = ("openssl version", "fio --version", "iperf3 --version", "netperf -V", "mpstat -V", "cyclictest --help")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@define
class RunSetup:
    """The state of a booted board that numbers depend on.

    Attributes:
        facts: name -> what was found, e.g. {"card mmcblk1": "SR32G", "tool openssl": "3.2.4"}.
        flags: for every sample that is taken in this state.
    """

    facts: dict[str, str] = field(factory=dict)
    flags: set[Flag] = field(factory=set)
    _before: str = ""

    def take(self, bench: Bench, known: Mapping[str, str]) -> None:
        """Fix the clock at its highest and look around.

        Args:
            known: the facts of the board's run before; one that has changed is a flag.
        """
        self._fix_clock(bench)
        self.facts |= dict(_cards(bench)) | dict(_tools(bench))
        if any(name in known and known[name] != value for name, value in self.facts.items()):
            self.flags.add(Flag.SETUP_CHANGED)

    def give_back(self, bench: Bench) -> None:
        """Restore the governor that was there before."""
        if self._before and self._before != "performance":
            bench.run(_set_governor(self._before), check=False)

    def _fix_clock(self, bench: Bench) -> None:
        text = bench.run(f"cat {_GOVERNORS} 2>/dev/null", check=False).decode("utf-8", "replace").split()
        if not text:
            return  # a board without frequency scaling
        self._before = text[0]
        bench.run(_set_governor("performance"), check=False)
        now = set(bench.run(f"cat {_GOVERNORS}", check=False).decode("utf-8", "replace").split())
        self.facts["governor"] = ", ".join(sorted(now))
        if now != {"performance"}:
            self.flags.add(Flag.GOVERNOR)
        identity = bench.board.identity
        clock = bench.run(f"cat {_CLOCK} 2>/dev/null", check=False).strip()
        if clock.isdigit():
            mhz = int(clock) / 1000
            self.facts["clock"] = f"{mhz:g} MHz"
            if identity is not None and abs(mhz / identity.cpu_mhz - 1) > _CLOCK_SHARE:
                self.flags.add(Flag.CLOCK_DIFFERS)


def _set_governor(name: str) -> str:
    return f"for file in {_GOVERNORS}; do echo {name} > $file; done"


def _cards(bench: Bench) -> Iterator[tuple[str, str]]:
    command = "for file in /sys/block/mmcblk*/device/name; do echo $file $(cat $file 2>/dev/null); done"
    for match in re.finditer(rb"/sys/block/(mmcblk\d+)/device/name (\S+)", bench.run(command, check=False)):
        yield f"card {match[1].decode()}", match[2].decode("utf-8", "replace")


def _tools(bench: Bench) -> Iterator[tuple[str, str]]:
    for command in _TOOLS:
        name = command.split()[0]
        said = bench.run(f"command -v {name} > /dev/null && {command} 2>&1", check=False)
        if version := _VERSION.search(said.decode("utf-8", "replace")):
            yield f"tool {name}", version[0]
