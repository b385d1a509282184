"""Boot time: from a board's moments to samples or a failure.

Definition: the performance guide's "Boot-time Measurement", from "Starting kernel" to the Linux prompt, which is the
login prompt, or the shell's where the kernel was given init=/bin/sh. The package is pure: the console's reader feeds
it bytes and moments, and queries the boot's result.
"""

from lab.benchmarks.boot.records import ENDS, START, MomentLike, PowerEdge
from lab.benchmarks.boot.watch import BootWatch

__all__ = ["ENDS", "START", "BootWatch", "MomentLike", "PowerEdge"]
