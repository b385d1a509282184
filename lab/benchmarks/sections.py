"""All sections, in the order of the guides."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final

from lab import extensions
from lab.benchmarks import (
    audio,
    can,
    ethernet,
    graphics,
    iperf3,
    ipsec,
    lmbench,
    openssl,
    pcie,
    processor,
    realtime,
    storage,
    uboottransfer,
    usbdevice,
)
from lab.benchmarks.section import Section
from lab.boards import BoardType
from lab.errors import ConfigurationError
from lab.metrics import catalogue

ALL: Final[tuple[Section, ...]] = (
    lmbench.SECTION,
    *processor.SECTIONS,
    audio.SECTION,
    *graphics.SECTIONS,
    *ethernet.SECTIONS,
    *iperf3.SECTIONS,
    pcie.SECTION,
    *storage.SECTIONS,
    *uboottransfer.SECTIONS,
    *uboottransfer.READ_SECTIONS,
    usbdevice.SECTION,
    openssl.SECTION,
    *ipsec.SECTIONS,
    can.SECTION,
    realtime.SECTION,
    *processor.DISTRIBUTION_SECTIONS,
)


@functools.cache
def every() -> tuple[Section, ...]:
    """All sections: boardlab's, and those of installed packages.

    Raises:
        ConfigurationError: a package's is none, or has a name or a metric of another one.
    """
    sections = list(ALL)
    for name, extension in extensions.load(extensions.SECTIONS).items():
        for section in (
            (extension,)
            if isinstance(extension, Section)
            else tuple(extension if isinstance(extension, Iterable) else (extension,))
        ):
            if not isinstance(section, Section):
                raise extensions.wrong(extensions.SECTIONS, name, "a Section, or several", section)
            _check(section, sections)
            sections.append(section)
    return tuple(sections)


def _check(section: Section, others: Iterable[Section]) -> None:
    if any(section.name == other.name for other in others):
        raise ConfigurationError(
            f"{extensions.SECTIONS}: there is a section {section.name!r} already; give it another name"
        )
    own = {metric.name for metric in section.declares}
    for metric in own:
        if catalogue.find(metric) is not None:
            raise ConfigurationError(
                f"section {section.name!r} declares {metric}, which boardlab has; give it another name"
            )
    for metric in set(section.metrics) - own:
        if catalogue.find(metric) is None:
            raise ConfigurationError(
                f"section {section.name!r} measures {metric}, which nothing declares: add it to `declares`"
            )


def of_number(metric: str, params: Mapping[str, str]) -> Section | None:
    """The section that measures a metric at these parameters, if any."""
    fitting = [s for s in every() if metric in s.metrics and s.params.items() <= params.items()]
    return max(fitting, key=lambda section: len(section.params), default=None)


def of_chapter(chapter: str, board: BoardType) -> list[Section]:
    """A chapter's sections for a board type, harmless and Linux ones first."""
    fitting = [section for section in every() if section.chapter == chapter and section.fits(board)]
    return sorted(fitting, key=order)


def order(section: Section) -> tuple[bool, bool]:
    """Sort key: harmless sections first, Linux before U-Boot.

    So each is booted once.
    """
    return bool(section.overwrites), section.where == "uboot"
