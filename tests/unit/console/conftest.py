"""Hypothesis without its time limit for one example: it measures the machine, not the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("console", deadline=None)
settings.load_profile("console")
