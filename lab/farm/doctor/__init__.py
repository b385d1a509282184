"""Checks of a host's fitness to measure; nothing is changed.

Each finding has a remedy.
"""

from lab.farm.doctor.checks import ExaminedHost, examine, examined_host
from lab.farm.doctor.software import DoctorFinding

__all__ = ["DoctorFinding", "ExaminedHost", "examine", "examined_host"]
