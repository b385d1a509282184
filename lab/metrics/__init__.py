"""Metrics declared once; samples, summaries, uncertainty and flags of a Measurement."""

from lab.metrics.catalogue import ALL, by_name
from lab.metrics.flags import Flag
from lab.metrics.model import Measurement, Metric, Moment, Sample, SampleRecord, Summary, summarise

__all__ = [
    "ALL",
    "Flag",
    "Measurement",
    "Metric",
    "Moment",
    "Sample",
    "SampleRecord",
    "Summary",
    "by_name",
    "summarise",
]
