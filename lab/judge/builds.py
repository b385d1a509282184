"""The build of a run, i.e. its software: version lines, hashes of images, and the board's own record of user space.

The label of a release is typed by a person and may be wrong. Two builds differ if a part that is known of both differs.
They are the same if at least one part is known of both, and none differs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import asdict, frozen

from lab.metrics.catalogue import BOOT_POWER_ON, BOOT_STAGE, HEADLINE_NAMES
from lab.results.records import PUBLISHED, RunHead
from lab.results.series import run_head, runs_before
from lab.results.snapshot import StoreSnapshot
from lab.results.sums import Average

RUNS_BACK: Final = 200  # earlier runs of a board type that are searched for the same label or build
DIGEST_DIGITS: Final = 12  # shown digits of a digest
_TITLES: Final = {
    "uboot": "U-Boot",
    "kernel": "the kernel",
    "images": "the images",
    "user_space": "user space",
    "root": "the root file system",
}
_LABELS: Final = 3  # most labels in a remark
# Arguments of a kernel's command line that name the medium (bootmedia: that of a QEMU board) or the board, and not the
# software.
_NOT_SOFTWARE: Final = re.compile(
    r"(?:root|rootfstype|ubi\.mtd|mtdparts|bootmedia|resume|nfsroot|ip|init)=|\S*(?:serial|(?:[0-9a-fA-F]{2}:){5})"
)


@frozen
class Build:
    """The software of a run; an empty part is unknown.

    Attributes:
        uboot, kernel: version lines, as the boot printed them.
        images: digest over the names and digests of the environment's images.
        user_space: the board's os-release, list of modules and command line.
        root: type and options of the root file system.
        medium: medium of the boot that named the root; only roots of the same medium are compared.
    """

    uboot: str = ""
    kernel: str = ""
    images: str = ""
    user_space: str = ""
    root: str = ""
    medium: str = ""

    @property
    def is_known(self) -> bool:
        """True if any part is known."""
        return bool(self.uboot or self.kernel or self.images or self.user_space)

    def differences(self, other: Build) -> dict[str, tuple[str, str]]:
        """Return the known parts that differ, each with this build's value and the other's."""
        return {name: (mine, theirs) for name, (mine, theirs) in self._common_parts(other).items() if mine != theirs}

    def is_same(self, other: Build) -> bool:
        """Return True if a part is known of both builds and none differs."""
        return bool(self._common_parts(other)) and not self.differences(other)

    def _common_parts(self, other: Build) -> dict[str, tuple[str, str]]:
        """Return the parts that are known of both builds, each with both values."""
        mine, theirs = asdict(self), asdict(other)
        parts = _TITLES if self.medium == other.medium else _TITLES.keys() - {"root"}
        return {name: (mine[name], theirs[name]) for name in _TITLES if name in parts and mine[name] and theirs[name]}


def build_of(provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> Build:
    """Return the build of a run by its provenance and the details of good attempts; the first known value counts."""
    hashes = provenance.get("images_sha256")
    images = ""
    if isinstance(hashes, Mapping) and hashes:
        text = "\n".join(f"{name} {digest}" for name, digest in sorted(hashes.items()))
        images = f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]}"
    printed = next((s for attempt in details if isinstance(s := attempt.get("software"), Mapping) and s), {})
    cross_checked = next((attempt for attempt in details if board_software(attempt)), {})
    board = board_software(cross_checked)
    return Build(
        str(printed.get("uboot") or ""),
        str(printed.get("kernel") or board.get("kernel_build") or ""),
        images,
        _user_space(board),
        str(board.get("root_options") or ""),
        medium_of(cross_checked),
    )


def board_software(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the software that the board itself named in an attempt; empty: it was not asked."""
    cross_check = details.get("cross_check")
    software = cross_check.get("software") if isinstance(cross_check, Mapping) else None
    return software if isinstance(software, Mapping) else {}


def _user_space(software: Mapping[str, Any]) -> str:
    """Return the user space that all media and boards of a build share, in one line.

    The device tree's digest is left out: it may have a seed that is new at each boot.
    """
    words = [word for word in str(software.get("command_line") or "").split() if not _NOT_SOFTWARE.match(word)]
    modules = str(software.get("modules") or "")[:DIGEST_DIGITS]
    parts = (software.get("os_release"), modules and f"modules {modules}", " ".join(words))
    return "; ".join(str(part) for part in parts if part)


def builds(snapshot: StoreSnapshot, run_ids: Sequence[int]) -> dict[int, Build]:
    """Return the build of each of these runs, by their last good attempts."""
    return _builds(snapshot, run_ids, dict(snapshot.last_details(run_ids)))


def _builds(
    snapshot: StoreSnapshot, run_ids: Sequence[int], details: Mapping[int, Mapping[str, Any]]
) -> dict[int, Build]:
    """Return the build of each of these runs, by the details of one attempt each."""
    return {
        run_id: build_of(provenance, [details[run_id]] if run_id in details else [])
        for run_id, provenance in snapshot.provenances(run_ids)
    }


def remarks(snapshot: StoreSnapshot, run_id: int) -> list[str]:
    """Return remarks on a run's flow and label, one sentence each.

    They say that its boots took another flow than earlier ones, that its label had another build before, or that its
    build had another label. Earlier runs of the same board type are searched, the latest first.
    """
    head = run_head(snapshot, run_id)
    if head is None or head.kind == PUBLISHED:
        return []
    latest = runs_before(snapshot, head, RUNS_BACK)
    run_ids = [head.id, *(run.id for run in latest)]
    details = dict(snapshot.last_details(run_ids))
    run_builds = _builds(snapshot, run_ids, details)
    own = run_builds[head.id]
    flow = flow_remark(head, details, latest)
    return [*flow, *_another_build(head, own, latest, run_builds), *_another_label(head, own, latest, run_builds)]


def _another_build(head: RunHead, own: Build, latest: Iterable[RunHead], run_builds: Mapping[int, Build]) -> list[str]:
    """Return a remark if the last run with this label had another build."""
    for run in latest:
        theirs = run_builds.get(run.id, Build())
        if run.release != head.release or not (own.is_same(theirs) or own.differences(theirs)):
            continue
        text = "; ".join(
            f"{_TITLES[part]} {mine!r}, then {other!r}" for part, (mine, other) in own.differences(theirs).items()
        )
        return [f"release {head.release!r} was another build in run {run.id}: now {text}"] if text else []
    return []


def _another_label(head: RunHead, own: Build, latest: Iterable[RunHead], run_builds: Mapping[int, Build]) -> list[str]:
    """Return a remark if earlier runs with this build had other labels."""
    labels: dict[str, int] = {}
    for run in latest:
        if run.release != head.release and own.is_same(run_builds.get(run.id, Build())):
            labels.setdefault(run.release, run.id)
    if not labels:
        return []
    labels_text = ", ".join(f"{label!r} (run {run_id})" for label, run_id in list(labels.items())[:_LABELS])
    labels_text += f" and {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
    if own.images and all(run_builds[run_id].images for run_id in labels.values()):
        return [f"the same build had another label before: {labels_text}"]
    return [f"nothing known of the builds differs from those with another label: {labels_text}"]


def medium_of(details: Mapping[str, Any]) -> str:
    """Return the medium that an attempt booted from; empty: unknown."""
    media = details.get("medium_seen")
    return str(next(iter(media.values()), "")) if isinstance(media, Mapping) else ""


# Parameter of a number, and key of an attempt's details; a number without it is of the usual flow.
FLOW: Final = "flow"
USUAL: Final = "normal"  # as `lab.boards.NORMAL`; importing the board types would slow down lists of runs
_BOOTS: Final = HEADLINE_NAMES | {BOOT_POWER_ON.name, BOOT_STAGE.name}
_OF_FLOW: Final = {FLOW, "stage"}  # parameters that differ between flows: each has stages of its own

_Conditions: TypeAlias = tuple[frozenset[tuple[str, str]], bool]
Flows: TypeAlias = Mapping[_Conditions, set[str]]


def flows_of(averages: Iterable[Average]) -> Flows:
    """Return the flows that were measured under each condition of a boot, e.g. a medium."""
    flows: dict[_Conditions, set[str]] = {}
    for average in averages:
        if average.metric.name in _BOOTS:
            flows.setdefault(_conditions(average), set()).add(average.params.get(FLOW, USUAL))
    return flows


def another_flow(average: Average, flows: Flows) -> str:
    """Return `flow quiet now, normal before` if only other flows were measured before; else empty.

    Args:
        flows: flows of the earlier runs.
    """
    before = flows.get(_conditions(average), set()) if average.metric.name in _BOOTS else set()
    now = average.params.get(FLOW, USUAL)
    return _flows_text(now, before) if before and now not in before else ""


def flow_remark(head: RunHead, details: Mapping[int, Mapping[str, Any]], latest: Iterable[RunHead]) -> list[str]:
    """Return a remark if earlier runs of the board took only other flows.

    Args:
        details: run id -> details of a good attempt.
        latest: runs before it, the latest first.
    """
    now = details.get(head.id, {}).get(FLOW)
    same_board = [run for run in latest if (run.board, run.kind) == (head.board, head.kind)]
    flows = {run.id: str(details[run.id][FLOW]) for run in same_board if details.get(run.id, {}).get(FLOW)}
    if not now or not flows or now in flows.values():
        return []
    run_id, flow = next(iter(flows.items()))
    return [f"not compared: {_flows_text(now, [flow])} (run {run_id}); numbers of two flows never are"]


def _flows_text(now: str, before: Iterable[str]) -> str:
    return f"flow {now} now, {', '.join(sorted(before))} before"


def _conditions(average: Average) -> _Conditions:
    """Return the conditions of a boot's number that do not depend on its flow."""
    conditions = ((name, value) for name, value in average.params.items() if name not in _OF_FLOW)
    return frozenset(conditions), average.simulated
