"""The flags of a sample: each disturbance or doubt that a number may have.

A module of its own, since a new doubt begins here; docs/results.md and docs/judge.md say what each does to a
comparison.
"""

from __future__ import annotations

import enum


class Flag(enum.StrEnum):
    """A disturbance or doubt of a number; it never changes the value."""

    MEDIUM_UNVERIFIED = "medium_unverified"  # fewer than two sources named the medium, or the root file system did not
    BOARD_UNVERIFIED = "board_unverified"  # nothing said which board it is
    MODE_UNVERIFIED = "mode_unverified"  # nothing names the low-power mode that was reached, and nothing another one
    OFF_UNVERIFIED = "off_unverified"  # the board was silent already before it was switched off, so nothing proved it
    # Neither rails nor other boots confirm when the power came, or they contradict the switch.
    ON_UNVERIFIED = "on_unverified"
    # The kernel's printk times and the host's stamps drift apart, or step; or bytes came too soon.
    CLOCK_DISAGREES = "clock_disagrees"
    CONSOLE_OVERRUN = "console_overrun"  # the kernel's tty driver counted lost bytes, or the text shows that some are
    # No console server stamped the bytes where they came: they came over a network first.
    REMOTE_STAMP = "remote_stamp"
    PROMPT_REPEATED = "prompt_repeated"  # the prompt may be another text, one drawn again, or one that nobody waits at
    # The kernel's start or the flow may be another one, as if characters were lost.
    FLOW_UNVERIFIED = "flow_unverified"
    # The board said nothing of its own boot or suspend, or no other boots are known to compare it with.
    NOT_CROSS_CHECKED = "not_cross_checked"
    # The log shows trouble that the boot or resume survived; the lines are in the attempt.
    KERNEL_ERRORS = "kernel_errors"
    UNCERTAIN = "uncertain"  # the ± is beyond half of the number; others of its kind are averaged without it
    POWER_GAP = "power_gap"  # samples of a rail are missing
    POWER_NACK = "power_nack"  # a sensor did not answer now and then
    POWER_STUCK = "power_stuck"  # a sensor repeats itself
    POWER_IMPLAUSIBLE = "power_implausible"  # a voltage or current that the rail cannot have
    POWER_FEW_SAMPLES = "power_few_samples"  # too short for the sensor's averaging
    SENSOR_RESET = "sensor_reset"  # a sensor lost its settings on the way
    GOVERNOR = "governor"  # the processor's clock was not fixed at its highest (cpufreq governor `performance`)
    CLOCK_DIFFERS = "clock_differs"  # the processor does not run at the clock of its board type
    THROTTLED = "throttled"  # the kernel slowed a processor down for its temperature
    SETUP_CHANGED = "setup_changed"  # another SD card, or another version of a tool, than in the board's run before
    NOT_MONOTONIC = "not_monotonic"  # packets were lost at a rate below one that lost none
    SHORTENED = "shortened"  # a program ran for a shorter time than its definition says (benchmarks: seconds)
    SIMULATED = "simulated"  # a virtual board; never compared with a real one
