"""boardlab: boot time, sleep, power and benchmarks of boards, with a stated uncertainty."""
