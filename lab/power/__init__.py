"""Rails: sensors, the sampler, traces, and what a board drew between two moments (docs/power.md)."""

from lab.power.config import PowerConfig, RailConfig, from_env
from lab.power.model import Mark, PhasePower, RailPower, RailSensor, Range
from lab.power.process import Sampler, sampling
from lab.power.trace import Trace, TraceMeta

__all__ = [
    "Mark",
    "PhasePower",
    "PowerConfig",
    "RailConfig",
    "RailPower",
    "RailSensor",
    "Range",
    "Sampler",
    "Trace",
    "TraceMeta",
    "from_env",
    "sampling",
]
