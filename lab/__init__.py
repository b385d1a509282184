"""boardlab: boot time, sleep, power and benchmarks with stated uncertainty."""

__version__ = "1.0.0"
