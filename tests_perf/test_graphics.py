"""Graphics: frames a second and scores of the GPU.

Programs: GFXBench and glmark2; GLBenchmark 2.5 on the AM437x.
The lab brings: a display, or a connector that is forced on; the folders of GFXBench and GLBenchmark, which may not
be redistributed.
In the guide: "GFXBench Performance", "Glmark2 Performance", and the AM437x guide's tables of GLBenchmark.
"""

from __future__ import annotations

import pytest

from lab.benchmarks.section import Section
from lab.pytest_plugin.sections import SectionRunSession


@pytest.mark.chapter(name="Graphics SGX/RGX Driver")
def test_graphics(section_measurer: SectionRunSession, section: Section) -> None:
    """The suite's scores and frame rates are in the store."""
    section_measurer.measure(section)
    assert section_measurer.missing(section) == []
