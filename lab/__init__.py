"""boardlab: boot time, sleep, power and benchmarks with stated uncertainty."""

__version__ = "1.0.0"  # a commit that changes this line is a release; tools/version.py counts from it
