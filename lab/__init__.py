"""boardlab: boot time, sleep, power and benchmarks with stated uncertainty."""
