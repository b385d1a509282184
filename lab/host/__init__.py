"""The host: clocks, timers, scheduling, idle states, runtime folder, processes, ssh."""
