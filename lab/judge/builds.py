"""The software of a run: version lines, image hashes, and what the board says of its user space.

A release's label is typed by a person. Two builds differ if a part known of both differs; they are the same if a part
is known of both and none differs.
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

RUNS_BACK: Final = 200  # of a board type that are searched for the same label or build
DIGEST_DIGITS: Final = 12  # digits of a digest that a person compares
_TITLES: Final = {
    "uboot": "U-Boot",
    "kernel": "the kernel",
    "images": "the images",
    "user_space": "user space",
    "root": "the root file system",
}
_LABELS: Final = 3  # in a remark
# Of a command line: they name the medium (bootmedia: that of a QEMU board) or the board, and not the software.
_NOT_SOFTWARE: Final = re.compile(
    r"(?:root|rootfstype|ubi\.mtd|mtdparts|bootmedia|resume|nfsroot|ip|init)=|\S*(?:serial|(?:[0-9a-fA-F]{2}:){5})"
)


@frozen
class Build:
    """A run's software, as far as known; empty: unknown.

    Attributes:
        uboot, kernel: their version lines, as printed.
        images: digest over the names and digests of the environment's images.
        user_space: the board's os-release, list of modules and command line.
        root: type and options of its root file system.
        medium: that it booted from; only roots of the same medium compare.
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
        """The known parts that differ: part -> (this one's, the other's)."""
        return {name: (mine, theirs) for name, (mine, theirs) in self._both(other).items() if mine != theirs}

    def is_same(self, other: Build) -> bool:
        """True if some part is known of both and none differs."""
        return bool(self._both(other)) and not self.differences(other)

    def _both(self, other: Build) -> dict[str, tuple[str, str]]:
        mine, theirs = asdict(self), asdict(other)
        parts = _TITLES if self.medium == other.medium else _TITLES.keys() - {"root"}
        return {name: (mine[name], theirs[name]) for name in _TITLES if name in parts and mine[name] and theirs[name]}


def build_of(provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> Build:
    """The build from provenance and the first attempt that knows it."""
    hashes = provenance.get("images_sha256")
    images = ""
    if isinstance(hashes, Mapping) and hashes:
        text = "\n".join(f"{name} {digest}" for name, digest in sorted(hashes.items()))
        images = f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]}"
    software = next((s for attempt in details if isinstance(s := attempt.get("software"), Mapping) and s), {})
    checked = next((attempt for attempt in details if board_software(attempt)), {})
    board = board_software(checked)
    return Build(
        str(software.get("uboot") or ""),
        str(software.get("kernel") or board.get("kernel_build") or ""),
        images,
        _user_space(board),
        str(board.get("root_options") or ""),
        medium_of(checked),
    )


def board_software(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """The software as the board itself named it."""
    checked = details.get("cross_check")
    software = checked.get("software") if isinstance(checked, Mapping) else None
    return software if isinstance(software, Mapping) else {}


def _user_space(software: Mapping[str, Any]) -> str:
    """The part that all media and boards share, in one line.

    A device tree may have a seed that is new at each boot, so its digest is no part.
    """
    words = [word for word in str(software.get("command_line") or "").split() if not _NOT_SOFTWARE.match(word)]
    modules = str(software.get("modules") or "")[:DIGEST_DIGITS]
    parts = (software.get("os_release"), modules and f"modules {modules}", " ".join(words))
    return "; ".join(str(part) for part in parts if part)


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
    """Remarks on a run's flow and label, one sentence each.

    Its boots have another flow than earlier ones; its label had another build, or its build another label. It looks at
    earlier runs of the same board type, the latest first.
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
    labels: dict[str, int] = {}
    for run in latest:
        if run.release != head.release and own.is_same(run_builds.get(run.id, Build())):
            labels.setdefault(run.release, run.id)
    if not labels:
        return []
    named = ", ".join(f"{label!r} (run {run_id})" for label, run_id in list(labels.items())[:_LABELS])
    named += f" and {len(labels) - _LABELS} more" if len(labels) > _LABELS else ""
    if own.images and all(run_builds[run_id].images for run_id in labels.values()):
        return [f"the same build had another label before: {named}"]
    return [f"nothing known of the builds differs from those with another label: {named}"]


def medium_of(details: Mapping[str, Any]) -> str:
    """The medium that an attempt booted from; empty: unknown."""
    media = details.get("medium_seen")
    return str(next(iter(media.values()), "")) if isinstance(media, Mapping) else ""


# A parameter of a number, and one of an attempt's details; a number without it is of the usual flow.
FLOW: Final = "flow"
USUAL: Final = "normal"  # as `lab.boards.NORMAL`; a list of runs is faster without the board types
_BOOTS: Final = HEADLINE_NAMES | {BOOT_POWER_ON.name, BOOT_STAGE.name}
_OF_FLOW: Final = {FLOW, "stage"}  # each flow has its own stages

_Conditions: TypeAlias = tuple[frozenset[tuple[str, str]], bool]
Flows: TypeAlias = Mapping[_Conditions, set[str]]


def flows_of(averages: Iterable[Average]) -> Flows:
    """Conditions of a boot (e.g. its medium) -> its measured flows."""
    flows: dict[_Conditions, set[str]] = {}
    for average in averages:
        if average.metric.name in _BOOTS:
            flows.setdefault(_conditions(average), set()).add(average.params.get(FLOW, USUAL))
    return flows


def another_flow(average: Average, flows: Flows) -> str:
    """`flow quiet now, normal before` if only other flows were measured."""
    before = flows.get(_conditions(average), set()) if average.metric.name in _BOOTS else set()
    now = average.params.get(FLOW, USUAL)
    return _flows_text(now, before) if before and now not in before else ""


def flow_remark(head: RunHead, details: Mapping[int, Mapping[str, Any]], latest: Iterable[RunHead]) -> list[str]:
    """A remark if earlier runs of the board have only other flows.

    Args:
        details: run -> those of a good attempt.
        latest: the runs before it, the latest first.
    """
    now = details.get(head.id, {}).get(FLOW)
    same = [run for run in latest if (run.board, run.kind) == (head.board, head.kind)]
    known_flows = {run.id: str(details[run.id][FLOW]) for run in same if details.get(run.id, {}).get(FLOW)}
    if not now or not known_flows or now in known_flows.values():
        return []
    return [
        f"not compared: {_flows_text(now, [next(iter(known_flows.values()))])} (run {next(iter(known_flows))}); "
        "numbers of two flows never are"
    ]


def _flows_text(now: str, before: Iterable[str]) -> str:
    return f"flow {now} now, {', '.join(sorted(before))} before"


def _conditions(average: Average) -> _Conditions:
    conditions = ((name, value) for name, value in average.params.items() if name not in _OF_FLOW)
    return frozenset(conditions), average.simulated
