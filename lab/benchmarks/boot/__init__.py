"""Boot time: from a board's moments to stages and samples, or to the class of its failure.

Definition: the performance guide's "Boot-time Measurement", from "Starting kernel" to the Linux prompt, which is the
login prompt, or the shell's where the kernel was given init=/bin/sh. The room is pure: who reads the console feeds it
bytes and moments, and asks it what became of the boot.
"""

from lab.benchmarks.boot.records import ENDS, START, MomentLike, PowerEdge
from lab.benchmarks.boot.watch import BootWatch

__all__ = ["ENDS", "START", "BootWatch", "MomentLike", "PowerEdge"]
