"""What a stored run was made with, as far as a number may depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.benchmarks.identity import from_document
from lab.judge.builds import build_of
from lab.results.history import RunNumbers
from lab.results.series import run_head
from lab.results.snapshot import StoreSnapshot


def causes(numbers: RunNumbers) -> dict[str, str]:
    """The causes (`lab.judge.history.CAUSES`) that are known of a run.

    The image is the hashes of its files; where they are not known, the software is what U-Boot and the kernel printed of
    themselves, which says nothing of user space. A board is known by the serial number of its device tree, else by its MAC addresses.
    """
    return causes_of(numbers.run.release, numbers.run.provenance, numbers.details)


def causes_of(release: str, provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The same of a run's release, provenance and the details of its good attempts."""
    return {cause: value for cause, value in _known(release, provenance, details) if value}


def differences(snapshot: StoreSnapshot, run: int, before: int) -> dict[str, tuple[str, str]]:
    """What is known of two runs and differs: cause -> (before, now). Of the attempts each one's last counts."""
    provenances = dict(snapshot.provenances([run, before]))
    details = dict(snapshot.last_details([run, before]))
    heads = {each: run_head(snapshot, each) for each in (run, before)}
    now, was = (
        causes_of(head.release, provenances.get(each, {}), [details[each]] if each in details else []) if head else {}
        for each, head in heads.items()
    )
    return {cause: (was[cause], value) for cause, value in now.items() if was.get(cause, value) != value}


def _known(
    release: str, provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    build = build_of(provenance, details)
    yield "image", build.images
    yield "software", "" if build.images else "; ".join(line for line in (build.kernel, build.uboot) if line)
    yield "release", release
    identities = [from_document(each.get("identity")) for each in details]
    yield "board", next((each.serial or " ".join(each.macs) for each in identities if each.names), "")
    yield "card", ", ".join(sorted({f"{name} {value}" for name, value in _setup(details) if name.startswith("card")}))
    ports = [each.get("port") for each in details]
    yield "adapter", next((str(port.get("adapter") or "") for port in ports if isinstance(port, Mapping)), "")
    yield "host", str(provenance.get("host") or "")
    yield "tester", str(provenance.get("tester") or "")


def _setup(details: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for each in details:
        found = each.get("setup")
        if isinstance(found, Mapping):
            yield from ((str(name), str(value)) for name, value in found.items())
