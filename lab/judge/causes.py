"""The known causes of a change, i.e. parts of a run's provenance that may move a number.

A new cause is an entry of CAUSES, and a row of docs/judge.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from lab.benchmarks.identity import from_document
from lab.benchmarks.versions import FIRMWARE, HARDWARE
from lab.judge.builds import DIGEST_DIGITS, Build, build_of, medium_of
from lab.results.history import Item, RunNumbers
from lab.results.series import run_head
from lab.results.snapshot import StoreSnapshot


def _version(details: Mapping[str, Any], name: str) -> str:
    """Return a version that an attempt's boot printed; empty: it did not."""
    software = details.get("software")
    return str(software.get(name) or "") if isinstance(software, Mapping) else ""


@frozen
class RunFacts:
    """The facts of a run that its causes are read from.

    Attributes:
        release: label of the release.
        details: details of good attempts, in recorded order.
        build: the run's software.
    """

    release: str
    provenance: Mapping[str, Any]
    details: Sequence[Mapping[str, Any]]
    build: Build

    def hardware(self, name: str) -> str:
        """Return the first text that a boot printed of a part of the board's hardware; empty: none did."""
        return next((text for attempt in self.details if (text := _version(attempt, name))), "")

    def firmware(self, name: str) -> str:
        """Return each medium with the version that its boots printed of a firmware.

        E.g. "emmc 2.9; sd 2.10". Without a known medium the version stands alone.
        """
        versions: dict[str, str] = {}
        for attempt in self.details:
            if text := _version(attempt, name):
                versions.setdefault(medium_of(attempt), text)
        return "; ".join(f"{medium} {text}".strip() for medium, text in sorted(versions.items()))

    @property
    def content(self) -> str:
        """Each medium with the digest of the contents that boardlab has written to it."""
        media = self.provenance.get("provisioned")
        pairs = sorted(media.items()) if isinstance(media, Mapping) else ()
        digests = (
            (medium, str(provisioned.get("content") or ""))
            for medium, provisioned in pairs
            if isinstance(provisioned, Mapping)
        )
        return "; ".join(f"{medium} {digest[:DIGEST_DIGITS]}" for medium, digest in digests if digest)

    @property
    def board(self) -> str:
        """The serial number of the board's device tree, else its MAC addresses."""
        identities = [from_document(attempt.get("identity")) for attempt in self.details]
        return next((identity.serial or " ".join(identity.macs) for identity in identities if identity.names), "")

    @property
    def card(self) -> str:
        """The product names of the cards in the board."""
        setups = [setup for attempt in self.details if isinstance(setup := attempt.get("setup"), Mapping)]
        cards = {
            f"{name} {value}" for setup in setups for name, value in setup.items() if str(name).startswith("card")
        }
        return ", ".join(sorted(cards))

    @property
    def adapter(self) -> str:
        """The serial adapter of the first attempt that names one."""
        ports = (attempt.get("port") for attempt in self.details)
        return next((str(port.get("adapter") or "") for port in ports if isinstance(port, Mapping)), "")


@frozen
class RunCause:
    """One known cause, i.e. a part of a run's provenance.

    Attributes:
        read: returns its value in a run; empty: unknown.
        kind: "software" distinguishes two runs with one label. A change of "software" or "label" is a new image; any
            other change is a known change within an image. Runs with a different "setup" do not confirm each other.
        proves_same: True if equal values prove that two runs had the same image.
        outranks_digests: True if another value means another build, even with the same digest of the image.
        per_medium: True if each medium has a value of its own.
    """

    read: Callable[[RunFacts], str]
    kind: Literal["software", "label", "hardware", "setup"]
    proves_same: bool = False
    outranks_digests: bool = False
    per_medium: bool = False


CAUSES: Final[dict[str, RunCause]] = {
    "image": RunCause(lambda run: run.build.images, "software", proves_same=True),
    "content": RunCause(lambda run: run.content, "software", proves_same=True, per_medium=True),
    # If the digests of the image are unknown, the version lines of U-Boot and the kernel stand for it.
    "software": RunCause(
        lambda run: "" if run.build.images else "; ".join(filter(None, (run.build.kernel, run.build.uboot))),
        "software",
    ),
    **{
        name: RunCause(
            functools.partial(RunFacts.firmware, name=name),
            "software",
            outranks_digests=name != "image_bytes",
            per_medium=True,
        )
        for name in FIRMWARE
    },
    "user_space": RunCause(lambda run: run.build.user_space, "software", outranks_digests=True),
    "release": RunCause(lambda run: run.release, "label"),
    "board": RunCause(lambda run: run.board, "setup"),
    **{name: RunCause(functools.partial(RunFacts.hardware, name=name), "hardware") for name in HARDWARE},
    "card": RunCause(lambda run: run.card, "setup"),
    "adapter": RunCause(lambda run: run.adapter, "setup"),
    "host": RunCause(lambda run: str(run.provenance.get("host") or ""), "setup"),
    "tester": RunCause(lambda run: str(run.provenance.get("tester") or ""), "setup"),
}


def causes(numbers: RunNumbers) -> dict[str, str]:
    """Return the known causes of a run: name -> value."""
    return causes_of(numbers.run.release, numbers.run.provenance, numbers.details)


def causes_of(release: str, provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the known causes by a run's release, provenance and details of good attempts: name -> value."""
    facts = RunFacts(release, provenance, details, build_of(provenance, details))
    return {name: value for name, cause in CAUSES.items() if (value := cause.read(facts))}


def contents(run_causes: Mapping[str, str], cause: str = "content") -> dict[str, str]:
    """Return for each medium its value of a cause that has one per medium.

    Args:
        run_causes: causes of a run.
        cause: name of the cause.
    """
    parts = (part.partition(" ") for part in run_causes.get(cause, "").split("; ") if part)
    return {medium: digest for medium, _, digest in parts}


def causes_at(run_causes: Mapping[str, str], item: Item) -> Mapping[str, str]:
    """Return the causes that apply to an item of a run: of a cause per medium only the value of its medium."""
    medium = dict(item).get("medium")
    if medium is None:
        return run_causes
    of_media = {name: contents(run_causes, name).get(medium, "") for name in run_causes if CAUSES[name].per_medium}
    return {name: value for name, value in (dict(run_causes) | of_media).items() if value}


def changes(before: Mapping[str, str], since: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the causes that are known of two runs and differ, each with both values."""
    for name in CAUSES:
        if name in before and name in since and before[name] != since[name]:
            yield name, (before[name], since[name])


def differences(snapshot: StoreSnapshot, run: int, before: int) -> dict[str, tuple[str, str]]:
    """Return the known differences between two runs, by their last good attempts.

    Args:
        before: id of the earlier run.

    Returns:
        Cause -> its value in the earlier run, and in the other.
    """
    provenances = dict(snapshot.provenances([run, before]))
    details = dict(snapshot.last_details([run, before]))
    heads = {run_id: run_head(snapshot, run_id) for run_id in (run, before)}
    now, was = (
        causes_of(head.release, provenances.get(run_id, {}), [details[run_id]] if run_id in details else [])
        if head
        else {}
        for run_id, head in heads.items()
    )
    return dict(changes(was, now))
