"""The flags of a sample: each disturbance or doubt that a number may have.

A module of its own, since a new doubt begins here; docs/results.md and docs/judge.md say what each does to a
comparison.
"""

from __future__ import annotations

import enum
from typing import Self


class Flag(enum.StrEnum):
    """A disturbance or doubt of a number; it never changes the value.

    Attributes:
        text: for readers of a guide.
    """

    text: str

    def __new__(cls, value: str, text: str = "") -> Self:
        """A member; `text` is no part of its value."""
        flag = str.__new__(cls, value)
        flag._value_, flag.text = value, text
        return flag

    # Fewer than two sources named the medium, or the root file system did not.
    MEDIUM_UNVERIFIED = "medium_unverified", "the boot medium was not confirmed"
    BOARD_UNVERIFIED = "board_unverified", "the board's identity was not confirmed"
    # Nothing names the low-power mode that was reached, and nothing another one.
    MODE_UNVERIFIED = "mode_unverified", "the low-power mode was not confirmed"
    # The board was silent already before it was switched off, so nothing proved it.
    OFF_UNVERIFIED = "off_unverified", "the board was not seen to switch off before"
    # Neither rails nor other boots confirm when the power came, or they contradict the switch.
    ON_UNVERIFIED = "on_unverified", "the instant of power-on was not confirmed"
    # The kernel's printk times and the host's stamps drift apart, or step; or bytes came too soon.
    CLOCK_DISAGREES = "clock_disagrees", "the board's clock and the lab's disagree"
    # The kernel's tty driver counted lost bytes, or the text shows that some are.
    CONSOLE_OVERRUN = "console_overrun", "characters of the console were lost"
    # No console server stamped the bytes where they came: they came over a network first.
    REMOTE_STAMP = "remote_stamp", "timed over a network"
    # The prompt may be another text, one drawn again, or one that nobody waits at.
    PROMPT_REPEATED = "prompt_repeated", "the prompt that ends the boot was not the only one"
    # The kernel's start or the flow may be another one, as if characters were lost.
    FLOW_UNVERIFIED = "flow_unverified", "the boot may have taken another path"
    # The board said nothing of its own boot or suspend, or no other boots are known to compare it with.
    NOT_CROSS_CHECKED = "not_cross_checked", "not checked against the board's own times"
    # The log shows trouble that the boot or resume survived; the lines are in the attempt.
    KERNEL_ERRORS = "kernel_errors", "the kernel logged errors"
    # The ± is beyond half of the number; others of its kind are averaged without it.
    UNCERTAIN = "uncertain", "uncertain by more than half of the number"
    POWER_GAP = "power_gap", "readings of a power sensor are missing"
    POWER_NACK = "power_nack", "a power sensor did not answer now and then"
    POWER_STUCK = "power_stuck", "a power sensor repeated itself"
    POWER_IMPLAUSIBLE = "power_implausible", "a voltage or current was beyond what the rail can have"
    POWER_FEW_SAMPLES = "power_few_samples", "too short for the power sensor's averaging"
    SENSOR_RESET = "sensor_reset", "a power sensor lost its settings"
    # The processor's clock was not fixed at its highest (cpufreq governor `performance`).
    GOVERNOR = "governor", "the processor's clock was not fixed at its highest"
    CLOCK_DIFFERS = "clock_differs", "the processor did not run at its nominal clock"
    THROTTLED = "throttled", "the processor was slowed down for its temperature"
    # Another SD card, or another version of a tool, than in the board's run before.
    SETUP_CHANGED = "setup_changed", "the card or a program's version is another one than before"
    # Packets were lost at a rate below one that lost none.
    NOT_MONOTONIC = "not_monotonic", "packets were lost at a lower rate, too"
    # A program ran for a shorter time than its definition says (benchmarks: seconds).
    SHORTENED = "shortened", "measured for a shorter time than usual"
    # A virtual board; never compared with a real one.
    SIMULATED = "simulated", "a simulated board"
