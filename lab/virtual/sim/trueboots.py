"""The true times of a simulated board's boots: its UART's bytes, told apart by what the board itself says of its stages.

A text alone shows little: an environment that is printed holds "Starting kernel ..." too, /etc/issue a look-alike of the
prompt. The board notes when a kernel really takes over and when it really waits for a login.
"""

from __future__ import annotations

import re

from attrs import frozen

from lab.virtual.sim.program import NS_PER_MS
from lab.virtual.truth import Truth

_START = rb"Starting kernel \.\.\."
_AFTER_NS = 50 * NS_PER_MS  # how much later than its note a byte may leave, on a bench that is late
_STAGE = re.compile(r" stage=(\S+)")


@frozen
class TrueBoot:
    """A boot that reached its login prompt, in nanoseconds of the truth log's clock.

    Attributes:
        on_ns: the supply came up.
        started_ns: the last byte of U-Boot's "Starting kernel ..." left the UART; in falcon mode, where nobody says that:
            TF-A handed over to the kernel.
        prompt_ns: the last byte of the login prompt did.
    """

    on_ns: int
    started_ns: int
    prompt_ns: int

    @property
    def boot_s(self) -> float:
        """What `boot.time` measures."""
        return (self.prompt_ns - self.started_ns) / 1e9

    @property
    def from_power_on_s(self) -> float:
        """What `boot.power_on_to_prompt` measures."""
        return (self.prompt_ns - self.on_ns) / 1e9


def true_boots(truth: Truth, hostname: str) -> list[TrueBoot]:
    """Every boot that U-Boot started, or TF-A in falcon mode, and that reached the login prompt; its host name may lack a letter."""
    prompt = rb"[\w-]+ login: "
    half_ns = truth.duration_ns(len(f"{hostname} login: ") // 2)
    stages = [(named[1], note.t_ns) for note in truth.notes if (named := _STAGE.search(note.text))]
    found: list[TrueBoot] = []
    on_ns, started_ns, before, before_ns = 0, None, "", 0
    for number, (stage, t_ns) in enumerate(stages):
        if stage == "rom":
            on_ns, started_ns = (on_ns if before == "reset" else t_ns), None
        elif stage == "kernel":
            starts = [t_ns] if before == "tfa" else truth.find(_START, before_ns, t_ns + _AFTER_NS)
            started_ns = starts[-1] if starts else None
        elif stage == "login" and started_ns is not None:
            ends_ns = stages[number + 1][1] if number + 1 < len(stages) else None
            prompts = truth.find(prompt, t_ns + half_ns, ends_ns)
            found += [TrueBoot(on_ns, started_ns, prompts[0])] if prompts else []
            started_ns = None
        before, before_ns = stage, t_ns
    return found
