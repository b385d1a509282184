"""The PC at the other end of a simulated board's links.

It answers the few commands that the sections give a tester; `lab virtual tester` is it for the TesterDriver of an
environment.
"""

from __future__ import annotations

import random
import shlex
import sys
import time
from typing import NoReturn

import typer
from attrs import define

from lab.virtual.sim import figures
from lab.virtual.sim.linux.sample_outputs import network
from lab.virtual.sim.model import Model, model
from lab.virtual.sim.timing import dice


def answer(command: str, board_type: str, release: str, seed: int | None) -> NoReturn:
    """Answer a command as a simulated board's tester.

    Its numbers are drawn from published ones.

    Args:
        release: of its software; "": the newest.
        seed: of its chance; None: another one each time.
    """
    chance = dice(time.monotonic_ns() if seed is None else seed, command)
    text, status = Tester(model(board_type, release or None), chance).run(command)
    sys.stdout.write(text)
    raise typer.Exit(status)


# --- The tester of a simulated board ---


_TOOLS = frozenset({"netperf", "netserver", "iperf", "iperf3", "udevadm", "dd", "ip", "mount", "umount"})
_DISK_BYTES = 16_384_000  # free part of 16 MiB with a file system


@define
class Tester:
    """A played tester.

    Attributes:
        dice: its chance.
    """

    model: Model
    dice: random.Random

    def run(self, command: str) -> tuple[str, int]:
        """Output and exit status of a command."""
        words = shlex.split(command)
        if words[:2] == ["command", "-v"]:
            known = words[2] in _TOOLS
            return (f"/usr/bin/{words[2]}\n" if known else "", int(not known))
        if "netperf" in words:
            return self._netperf(words), 0
        if "dd" in words:
            return self._dd("read" if any(word.startswith("of=/dev") for word in words) else "write")
        return "", 0

    def _netperf(self, words: list[str]) -> str:
        if "-V" in words:
            return "Netperf version 2.7.1\n"
        _, seconds, offered, payload = network.asked(words)
        own = figures.load(self.model.board.name, self.model.release_name)
        stream = network.udp(self.model, own, self.dice, "ingress", payload, offered)
        return network.udp_text(stream, payload, seconds, local=False)

    def _dd(self, direction: str) -> tuple[str, int]:
        own = figures.load(self.model.board.name, self.model.release_name)
        rate = own.draw(self.dice, "usb.device.throughput", 40.0, blocks="150", direction=direction)
        full = direction == "write"
        text = "dd: error writing '/mnt/boardlab-usb/150mb': No space left on device\n" if full else ""
        text += f"{16 if full else 15}+{0 if full else 1} records in\n15+{0 if full else 1} records out\n"
        seconds = _DISK_BYTES / 1e6 / rate
        return text + f"{_DISK_BYTES} bytes (16 MB, 16 MiB) copied, {seconds:.6f} s, {rate:.1f} MB/s\n", int(full)
