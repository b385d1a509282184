"""Which software a run was of, whatever its label says: U-Boot's and the kernel's own lines, and the hash of the images.

A label is what somebody typed. Two runs are of another build where one of these is known of both and differs; of the same
build where something is known of both and nothing differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, frozen

from lab.judge.flows import flow_remark
from lab.results.records import PUBLISHED
from lab.results.series import run_head, runs_before
from lab.results.snapshot import RunHead, StoreSnapshot

RUNS_BACK: Final = 200  # of a board type that are searched for the same label or build
_SHORT: Final = 12  # digits of a digest that a person compares
_TITLES: Final = {"uboot": "U-Boot", "kernel": "the kernel", "images": "the images"}


@frozen
class Build:
    """What is known of a run's software; empty: not known.

    Attributes:
        uboot, kernel: their version lines, as printed. images: digest over the names and digests of the environment's images.
    """

    uboot: str = ""
    kernel: str = ""
    images: str = ""

    @property
    def is_known(self) -> bool:
        """Whether anything is."""
        return bool(self.uboot or self.kernel or self.images)

    def differences(self, other: Build) -> dict[str, tuple[str, str]]:
        """What is known of both and differs: part -> (this one's, the other's)."""
        return {name: (mine, theirs) for name, (mine, theirs) in self._both(other).items() if mine != theirs}

    def is_same(self, other: Build) -> bool:
        """Whether something is known of both, and all of that is the same."""
        return bool(self._both(other)) and not self.differences(other)

    def _both(self, other: Build) -> dict[str, tuple[str, str]]:
        mine, theirs = asdict(self), asdict(other)
        return {name: (mine[name], theirs[name]) for name in mine if mine[name] and theirs[name]}


def build_of(provenance: Mapping[str, Any], details: Iterable[Mapping[str, Any]]) -> Build:
    """Of a run's provenance and the details of its good attempts, of which the first that knows counts."""
    hashes = provenance.get("images_sha256")
    images = ""
    if isinstance(hashes, Mapping) and hashes:
        text = "\n".join(f"{name} {digest}" for name, digest in sorted(hashes.items()))
        images = f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:_SHORT]}"
    software = next((s for each in details if isinstance(s := each.get("software"), Mapping) and s), {})
    return Build(str(software.get("uboot") or ""), str(software.get("kernel") or ""), images)


def builds(snapshot: StoreSnapshot, run_ids: Sequence[int]) -> dict[int, Build]:
    """Run -> its build."""
    return _builds(snapshot, run_ids, dict(snapshot.last_details(run_ids)))


def _builds(
    snapshot: StoreSnapshot, run_ids: Sequence[int], details: Mapping[int, Mapping[str, Any]]
) -> dict[int, Build]:
    return {
        run_id: build_of(provenance, [details[run_id]] if run_id in details else [])
        for run_id, provenance in snapshot.provenances(run_ids)
    }


def remarks(snapshot: StoreSnapshot, run_id: int) -> list[str]:
    """What a person should know of a run before its numbers, one sentence each.

    Its boots are of another flow than those before; its label was another build before, or its build had another label.

    Runs of the same board type before it are looked at, the latest first.
    """
    head = run_head(snapshot, run_id)
    if head is None or head.kind == PUBLISHED:
        return []
    latest = runs_before(snapshot, head, RUNS_BACK)
    run_ids = [head.id, *(each.id for each in latest)]
    details = dict(snapshot.last_details(run_ids))
    found = _builds(snapshot, run_ids, details)
    own = found[head.id]
    flow = flow_remark(head, details, latest)
    return [*flow, *_another_build(head, own, latest, found), *_another_label(head, own, latest, found)]


def _another_build(head: RunHead, own: Build, latest: Iterable[RunHead], found: Mapping[int, Build]) -> list[str]:
    for each in latest:
        theirs = found.get(each.id, Build())
        if each.release != head.release or not (own.is_same(theirs) or own.differences(theirs)):
            continue
        told = "; ".join(
            f"{_TITLES[part]} {mine!r}, then {other!r}" for part, (mine, other) in own.differences(theirs).items()
        )
        return [f"release {head.release!r} was another build in run {each.id}: now {told}"] if told else []
    return []


def _another_label(head: RunHead, own: Build, latest: Iterable[RunHead], found: Mapping[int, Build]) -> list[str]:
    labels: dict[str, int] = {}
    for each in latest:
        if each.release != head.release and own.is_same(found.get(each.id, Build())):
            labels.setdefault(each.release, each.id)
    if not labels:
        return []
    named = ", ".join(f"{label!r} (run {run_id})" for label, run_id in labels.items())
    return [f"the same build had another label before: {named}"]
