"""Sleep and wake-up: mode selection, verification, and both resume latencies.

`resume_kernel` is the vendor's: the performance guide's "Resume Latency Performance", between two lines of the kernel,
on the kernel's clock, which stands still while the board sleeps. `resume_wake_to_prompt` is the host's: from the edge
that wakes the board to the shell's answer. The package is pure: the console's reader feeds it events, runs its
commands, and queries the suspend's result.
"""
