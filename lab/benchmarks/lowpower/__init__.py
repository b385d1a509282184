"""Sleep and wake-up: how a mode is selected and verified, and the resume latency by its two definitions.

`resume_kernel` is the vendor's: the performance guide's "Resume Latency Performance", between two lines of the kernel,
on the kernel's clock, which stands still while the board sleeps. `resume_wake_to_prompt` is the host's: from the edge
that wakes the board to the shell's answer. The package is pure: who reads the console feeds it events, runs its
commands, and asks it what became of the suspend.
"""
