"""What a stored run was made with, as far as a number may depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.benchmarks.identity import from_document
from lab.judge.builds import build_of
from lab.results.histories import RunNumbers


def causes(numbers: RunNumbers) -> dict[str, str]:
    """The causes (`lab.judge.history.CAUSES`) that are known of a run.

    The image is the hashes of its files, else what U-Boot and the kernel printed of themselves. A board is known by the serial
    number of its device tree, else by its MAC addresses.
    """
    return {cause: value for cause, value in _known(numbers) if value}


def _known(numbers: RunNumbers) -> Iterator[tuple[str, str]]:
    provenance = numbers.run.provenance
    build = build_of(provenance, numbers.details)
    yield "image", build.images or "; ".join(line for line in (build.kernel, build.uboot) if line)
    yield "release", numbers.run.release
    identities = [from_document(details.get("identity")) for details in numbers.details]
    yield "board", next((each.serial or " ".join(each.macs) for each in identities if each.names), "")
    yield "card", ", ".join(sorted({f"{name} {value}" for name, value in _setup(numbers) if name.startswith("card")}))
    ports = [details.get("port") for details in numbers.details]
    yield "adapter", next((str(port.get("adapter") or "") for port in ports if isinstance(port, Mapping)), "")
    yield "host", str(provenance.get("host") or "")
    yield "tester", str(provenance.get("tester") or "")


def _setup(numbers: RunNumbers) -> Iterator[tuple[str, str]]:
    for details in numbers.details:
        found = details.get("setup")
        if isinstance(found, Mapping):
            yield from ((str(name), str(value)) for name, value in found.items())
