"""Rails: sensors, sampler, traces, and power of phases (docs/rails.md)."""

from lab.rails.config import RailConfig, RailsConfig, from_env
from lab.rails.model import AdcRange, PhasePower, RailPower, RailSensor, TraceMark
from lab.rails.process import Sampler, sampling
from lab.rails.trace import Trace, TraceMeta

__all__ = [
    "AdcRange",
    "PhasePower",
    "RailConfig",
    "RailPower",
    "RailSensor",
    "RailsConfig",
    "Sampler",
    "Trace",
    "TraceMark",
    "TraceMeta",
    "from_env",
    "sampling",
]
