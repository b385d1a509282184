"""Causes of a change: a new one is an entry of CAUSES, and a row of docs/judge.md."""

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
    software = details.get("software")
    return str(software.get(name) or "") if isinstance(software, Mapping) else ""


@frozen
class RunFacts:
    """The facts of a run from which its causes are read.

    Attributes:
        release: its label.
        details: of good attempts, the first ones first.
    """

    release: str
    provenance: Mapping[str, Any]
    details: Sequence[Mapping[str, Any]]
    build: Build

    def hardware(self, name: str) -> str:
        """The first that the consoles named of the board's hardware."""
        return next((text for attempt in self.details if (text := _version(attempt, name))), "")

    def firmware(self, name: str) -> str:
        """Each medium with a version that its boot named; the version alone where the medium is not known."""
        versions: dict[str, str] = {}
        for attempt in self.details:
            if text := _version(attempt, name):
                versions.setdefault(medium_of(attempt), text)
        return "; ".join(f"{medium} {text}".strip() for medium, text in sorted(versions.items()))

    @property
    def content(self) -> str:
        """Each medium with the digest of what was provisioned on it."""
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
        """The cards that the attempts found."""
        setups = [setup for attempt in self.details if isinstance(setup := attempt.get("setup"), Mapping)]
        cards = {
            f"{name} {value}" for setup in setups for name, value in setup.items() if str(name).startswith("card")
        }
        return ", ".join(sorted(cards))

    @property
    def adapter(self) -> str:
        """The serial adapter of the first attempt that knows it."""
        ports = (attempt.get("port") for attempt in self.details)
        return next((str(port.get("adapter") or "") for port in ports if isinstance(port, Mapping)), "")


@frozen
class RunCause:
    """A part of a run's provenance.

    Attributes:
        read: its value; empty: unknown.
        kind: "software" tells two runs of one label apart; of "software" and "label" each change is a new image; of all
            others it is a known change within an image. Two runs of another "setup" do not confirm each other.
        proves_same: equal values prove that two runs had the same image; others can only show that they had not.
        outranks_digests: another value is another build, whatever an image's digest says.
        per_medium: each medium has its own.
    """

    read: Callable[[RunFacts], str]
    kind: Literal["software", "label", "hardware", "setup"]
    proves_same: bool = False
    outranks_digests: bool = False
    per_medium: bool = False


CAUSES: Final[dict[str, RunCause]] = {
    "image": RunCause(lambda run: run.build.images, "software", proves_same=True),
    "content": RunCause(lambda run: run.content, "software", proves_same=True, per_medium=True),
    # Without an image: the version lines of U-Boot and the kernel.
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
    """The known causes of a run."""
    return causes_of(numbers.run.release, numbers.run.provenance, numbers.details)


def causes_of(release: str, provenance: Mapping[str, Any], details: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The causes from release, provenance and good attempts' details."""
    facts = RunFacts(release, provenance, details, build_of(provenance, details))
    return {name: value for name, cause in CAUSES.items() if (value := cause.read(facts))}


def contents(run_causes: Mapping[str, str], cause: str = "content") -> dict[str, str]:
    """Medium -> what was provisioned there, or another cause of it, by a run's causes."""
    parts = (part.partition(" ") for part in run_causes.get(cause, "").split("; ") if part)
    return {medium: digest for medium, _, digest in parts}


def causes_at(run_causes: Mapping[str, str], item: Item) -> Mapping[str, str]:
    """A run's causes for a number of one medium: only what is on that counts."""
    medium = dict(item).get("medium")
    if medium is None:
        return run_causes
    of_media = {name: contents(run_causes, name).get(medium, "") for name in run_causes if CAUSES[name].per_medium}
    return {name: value for name, value in (dict(run_causes) | of_media).items() if value}


def changes(before: Mapping[str, str], since: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each cause that is known of both and differs: cause -> (before, since)."""
    for name in CAUSES:
        if name in before and name in since and before[name] != since[name]:
            yield name, (before[name], since[name])


def differences(snapshot: StoreSnapshot, run: int, before: int) -> dict[str, tuple[str, str]]:
    """Known differences of two runs: cause -> (before, now).

    Each run's last good attempt counts.
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
