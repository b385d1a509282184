"""Rails: sensors, the sampler, traces, and what a board drew between two moments (docs/rails.md)."""

from lab.rails.config import RailConfig, RailsConfig, from_env
from lab.rails.model import Mark, PhasePower, RailPower, RailSensor, Range
from lab.rails.process import Sampler, sampling
from lab.rails.trace import Trace, TraceMeta

__all__ = [
    "Mark",
    "PhasePower",
    "RailConfig",
    "RailPower",
    "RailSensor",
    "RailsConfig",
    "Range",
    "Sampler",
    "Trace",
    "TraceMeta",
    "from_env",
    "sampling",
]
