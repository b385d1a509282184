"""Is this host fit to measure? Each check looks, and says what to do where something is wrong; nothing is changed."""

from lab.farm.doctor.examination import Patient, examine, patient
from lab.farm.doctor.software import DoctorFinding

__all__ = ["DoctorFinding", "Patient", "examine", "patient"]
