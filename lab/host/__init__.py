"""What the machine gives: clocks and timers, scheduling, idle states, the runtime folder, processes, status files."""
