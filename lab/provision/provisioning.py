"""Provisioning: plan, write, read back, switch, boot and compare."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile

from attrs import asdict, define, evolve, field, frozen

from lab.errors import BoardlabError, ConfigurationError
from lab.provision.errors import (
    MediaVerifyFailedError,
    ReleaseMismatchError,
    TargetRefusedError,
    WrongImageForBoardError,
)
from lab.provision.history import NewProvision, Provision, ProvisionBook
from lab.provision.release import Content, Expected, Release
from lab.provision.writer import Plan, Report, Spare, Verified, WriteProgress, Writer, WriteTarget
from lab.redaction import redact
from lab.run.board import Board


@frozen
class MediumResult:
    """Result for one medium.

    verified: None: it was planned only. software: the board's answers; empty: it was not booted.
    """

    plan: Plan
    verified: Verified | None = None
    software: Mapping[str, str] = {}


def at_once(_plan: Plan) -> AbstractContextManager[None]:
    """Take a turn without waiting."""
    return nullcontext()


@define
class Provisioner:
    """Puts one release on some media of a board.

    Attributes:
        media: in the order of writing.
        log: where it is recorded; None: nowhere.
        job_id, person: who does it.
        report: takes the progress.
        say: takes lines for a person.
        turn: is held while a plan is written, read back and switched to.
    """

    release: Release
    media: Sequence[str]
    report: Report
    say: Callable[[str], None]
    log: ProvisionBook | None = None
    job_id: int | None = None
    person: str = ""
    turn: Callable[[Plan], AbstractContextManager[None]] = at_once
    done: list[MediumResult] = field(factory=list, init=False)

    def plans(self, board: Board) -> list[Plan]:
        """Plan all media before the first byte of the first one.

        Raises:
            WrongImageForBoardError: the release is for another board type, or security state.
            TargetRefusedError, ImageTooLargeError, ConfigurationError: a medium cannot or must not be written.
        """
        check_board(self.release, board.type.name, board.security)
        board.recovery = self.release.recovery
        writers, selected = board.writers(), board.medium
        for medium in self.media:
            if medium not in self.release.media:
                raise ConfigurationError(
                    f"release {self.release.name} has nothing for {medium}; it has {', '.join(self.release.media)}: "
                    "name those with --medium, or add it to the release file"
                )
            if medium not in board.type.media:
                raise ConfigurationError(
                    f"{board.type.name} has no medium {medium!r}; it has: {', '.join(board.type.media)}"
                )
            if medium not in writers:
                raise TargetRefusedError(
                    f"nothing in the env can write {medium} of {board.board}"
                    + (f" (it can write {', '.join(writers)})" if writers else "")
                    + "; docs/releases.md says which driver each way needs"
                )
            board.select_medium(medium)  # without straps it could not be booted afterwards
        board.select_medium(selected)
        security, plans = board.security or "none", []
        for medium in self.media:
            target = WriteTarget(board.board, board.type.name, medium, security=security)
            tries = self.log.tries(board.board, medium) if self.log is not None else []
            plans.append(writers[medium].plan(self.release.media[medium], _add_tries(target, tries)))
        return plans

    def put(self, board: Board) -> list[MediumResult]:
        """Write all media, read them back, boot each, and compare.

        An eMMC is switched to what was read back before it boots.

        Raises:
            BoardlabError: of `plans`; of a write; of a boot; `release_mismatch` where something else boots: then none
                of the media counts as
                holding the release. Each eMMC that was switched and has not booted is switched back then, also where
                another medium failed, and
                the message says from which boot partition it boots.
        """
        self.done, selected = [], board.medium
        plans, writers = self.plans(board), board.writers()
        begun, untried = dict[str, int](), list[Plan]()
        try:
            for plan in plans:
                self._write(plan, writers[plan.target.medium], begun, untried)
            for number, result in enumerate(self.done):
                medium = result.plan.target.medium
                with _FailureRecorder(self.log, begun[medium]):
                    software = boot_and_compare(board, medium, self.release.name, self.release.identity, self.say)
                if result.plan in untried:
                    untried.remove(result.plan)
                if self.log is not None:
                    self.log.note_booted(begun[medium], software)
                self.done[number] = MediumResult(result.plan, result.verified, software)
        except BoardlabError as error:
            if not untried:
                raise
            extended_error, switched_back = error, list[str]()
            for plan in untried:
                medium = plan.target.medium
                media = [selected, *board.type.media, medium]
                extended_error = roll_back(
                    extended_error, board, plan, writers[medium], media, self.say, switched_back.append
                )
            if self.log is not None:
                for medium in (plan.target.medium for plan in untried):
                    message, is_back = _message(extended_error), medium in switched_back
                    self.log.note_failed(begun[medium], message, switched_back=is_back)
            raise extended_error from error
        return self.done

    def verify(self, board: Board) -> list[MediumResult]:
        """Read the media back and compare; nothing is written or booted.

        Raises:
            BoardlabError: of `plans`; `media_verify_failed` where something else is there.
        """
        plans, writers = [plan.to_read for plan in self.plans(board)], board.writers()
        self.done = [MediumResult(plan, self._read(plan, writers[plan.target.medium])) for plan in plans]
        return self.done

    def _read(self, plan: Plan, writer: Writer) -> Verified:
        try:
            return writer.verify(plan)
        except MediaVerifyFailedError as error:
            raise MediaVerifyFailedError(
                f"{plan.target.medium} of {plan.target.board} is not as {self.release.name} was written: {error}. It "
                "has another release, or a system that booted from it has changed it since; nothing was written"
            ) from error

    def _write(self, plan: Plan, writer: Writer, begun: dict[str, int], untried: list[Plan]) -> None:
        """Write one medium, read it back, and switch it.

        begun, untried: get the number of its record, and the plan if it can be switched back.
        """
        medium = plan.target.medium
        self.say(f"{medium}: {describe_plan(plan)}")
        begun[medium] = self._begin(plan)
        with _FailureRecorder(self.log, begun[medium]), self.turn(plan):
            writer.write(plan, self.report)
            verified = writer.verify(plan)
            note = writer.switch(plan)
        if plan.spare.kept:
            untried.append(plan)
        if self.log is not None:
            self.log.note_written(begun[medium], verified.digest, verified.method, verified.bytes)
        self.say(f"{medium}: read back and the same ({verified.bytes} bytes){'; ' if note else ''}{note}")
        self.done.append(MediumResult(plan, verified))

    def _begin(self, plan: Plan) -> int:
        if self.log is None:
            return 0
        target = plan.target
        return self.log.begin(
            NewProvision(
                target.board_type,
                target.board,
                target.medium,
                self.release.name,
                content_digest(self.release.media[target.medium]),
                plan.way,
                self.person,
                self.job_id,
                plan.spare.boots,
                plan.spare.kept,
                plan.spare.noted,
                self.release.identity.document,
            )
        )


def boot_and_compare(
    board: Board, medium: str, release: str, expected: Expected, say: Callable[[str], None]
) -> dict[str, str]:
    """Boot from a medium and compare its identity with a release.

    Returns: "uboot" and "kernel" -> the version line.

    Raises:
        ReleaseMismatchError: it is not the release.
        BoardlabError: it did not boot.
    """
    answers = board.booted(medium, expected.questions)
    wrong = expected.differences(answers)
    if wrong:
        raise ReleaseMismatchError(
            f"{board.board} was provisioned with {release} on {medium}, and something else boots: {'; '.join(wrong)}. "
            "Correct `identity` of the release file if the build is right; else the files are of another build. "
            "Then provision it again (lab provision)"
        )
    say(f"{medium}: booted, and it is {release}: {answers.get('kernel') or answers.get('uboot') or 'as expected'}")
    return {name: answers[name] for name in ("uboot", "kernel") if answers.get(name)}


def first_boot(board: Board, written: Provision, log: ProvisionBook, say: Callable[[str], None]) -> None:
    """Boot a medium that was written but never booted, and compare.

    An earlier try was killed before the boot, or failed at another medium. The medium counts as booted afterwards.

    Raises:
        ConfigurationError: the record does not have the release's identity.
        ReleaseMismatchError: it is not the release; no medium of the same try counts as holding it.
        BoardlabError: it did not boot; the record stays as it is.
    """
    medium = written.medium
    expected = Expected.of_document(written.identity)
    if expected is None:
        raise ConfigurationError(
            f"{written.release} was written to {medium} of {board.board} and has never booted there, and the record "
            "does not say how it can be told from another release: provision it again (lab provision --env ENV "
            f"--release FILE --medium {medium})"
        )
    say(f"{medium}: {written.release} was written there and has never booted: booting it to compare")
    try:
        software = boot_and_compare(board, medium, written.release, expected, say)
    except ReleaseMismatchError as error:
        log.note_refused(written.id, _message(error))
        raise
    log.note_booted(written.id, software)


def _add_tries(target: WriteTarget, tries: Sequence[Provision]) -> WriteTarget:
    """Add the record of its boot partitions to a target.

    tries: the newest first.
    """
    untried = takewhile(lambda provision: provision.state != "booted", tries)
    newest = {provision.boots: provision.state for provision in reversed(tries)}
    return evolve(
        target,
        untried=tuple(Spare.of(provision.boots, provision.kept, provision.spare) for provision in untried),
        booted=frozenset(boots for boots, state in newest.items() if state == "booted"),
    )


@frozen
class _FailureRecorder:
    """Records a failure in its context, also an interruption by a person."""

    log: ProvisionBook | None
    provision_id: int

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or self.log is None:
            return
        note = self.log.note_refused if isinstance(error, ReleaseMismatchError) else self.log.note_failed
        note(self.provision_id, _message(error))


def _message(error: BaseException) -> str:
    """Text of a failure in the record."""
    return redact(f"[{error.failure}] {error}" if isinstance(error, BoardlabError) else type(error).__name__)


def check_board(release: Release, board_type: str, security: str) -> None:
    """Make sure that a release is for a board.

    Args:
        security: of the device, by the environment; empty: not stated.

    Raises:
        WrongImageForBoardError: it is for another board, or its state is unknown.
    """
    if board_type not in release.boards:
        raise WrongImageForBoardError(
            f"release {release.name} is for {', '.join(release.boards)}, and the board is a {board_type}; nothing was "
            "written. Choose another release file, or add the board type to `boards` if it really is for both"
        )
    if release.security != (security or "none"):
        has = f"the env says {security}" if security else "the env does not say its state"
        raise WrongImageForBoardError(
            f"release {release.name} is for devices that are {release.security}, and {has}; nothing was written. A "
            f"device of another state does not start it. If the device is {release.security}, add `security: "
            f"{release.security}` to the BoardStrategy of the env"
        )


def content_digest(content: Content) -> str:
    """SHA-256 over a medium's content: digests of files and their places.

    Sources do not count.
    """

    def strip(document: object) -> object:
        if isinstance(document, dict):
            left_out = {"source", "bmap"} | ({"packed"} if not document.get("packed") else set())
            return {key: strip(value) for key, value in document.items() if key not in left_out}
        return [strip(element) for element in document] if isinstance(document, list) else document

    return hashlib.sha256(json.dumps(strip(asdict(content)), sort_keys=True).encode()).hexdigest()


def roll_back(
    error: BoardlabError,
    board: Board,
    plan: Plan,
    writer: Writer,
    media: Sequence[str],
    say: Callable[[str], None],
    note: Callable[[str], None],
) -> BoardlabError:
    """Switch a medium back after a failure, and extend the error.

    The medium was switched and has not booted since; the error names the boot partition that is active now.

    Every failure counts: a first stage that does not start may look like a wrong medium, since the ROM goes on to its
    next one.

    Args:
        plan: with the previous state.
        media: with U-Boot, in this order, unless the writer has a medium of its own.
        say: prints a line.
        note: takes the medium that was switched back.

    Returns:
        an error of the same class with an extended message.
    """
    medium, boots, previous = plan.target.medium, plan.spare.boots, plan.spare.kept
    what = "has what booted before" if previous in plan.target.booted else "it was set to boot from before"
    say(f"{medium}: {boots} has not booted as expected: switching back to {previous}")
    try:
        switch_back(board, plan, writer, media)
    except BoardlabError as failed:
        return extend_error(
            error,
            f"{medium} could not be switched back to {previous}, which {what}: [{failed.failure}] {failed} So "
            f"{medium} is taken to boot from {boots} still. Provision it again from another medium (`boot_from`) or "
            "with --from-nothing: that switches back before it writes",
        )
    note(medium)
    rest = (
        f". The rest of {medium} has the new release, which the old U-Boot may not start"
        if any(step.place is None or step.place.hardware == "user" for step in plan.steps)
        else ""
    )
    if not plan.spare.bus and (plan.content.extcsd.bootbus or plan.target.untried):
        rest += (
            ". How wide its bus is while it boots (bootbus) could not be read "
            f"before, and stays as it was set for {boots}"
        )
    return extend_error(
        error, f"{medium} boots from {previous} again, which {what}; {boots} has what was written now{rest}"
    )


def switch_back(board: Board, plan: Plan, writer: Writer, media: Sequence[str]) -> None:
    """Switch the medium back from the first prompt that can be reached.

    Raises:
        BoardlabError: no prompt could be reached; it is the error of the last one.
    """
    last: BoardlabError = ConfigurationError("no medium of the board has a prompt that could be tried")
    for medium in dict.fromkeys(media):
        try:
            board.select_medium(medium)
            writer.switch(plan.back)
        except BoardlabError as error:
            last = error
            if board.medium != medium:  # the writer starts from a medium of its own, or no straps select this one
                break
        else:
            return
    raise last


def extend_error(error: BoardlabError, what: str) -> BoardlabError:
    """The same error with a sentence more."""
    longer = copy.copy(error)
    longer.args = (f"{str(error).rstrip('.')}. Now {what}", *error.args[1:])
    return longer


_KIB, _MIB = 1024, 1024 * 1024
_SLOW_S = 30.0


@define
class ProgressPrinter:
    """Prints a line for each tenth of a plan or half minute."""

    say: Callable[[str], None]
    _step: str = field(default="", init=False)
    _tenth: int = field(default=-1, init=False)
    _at_ns: int = field(default=0, init=False)

    def __call__(self, progress: WriteProgress) -> None:
        """Take a report of a writer."""
        tenth = progress.done * 10 // progress.total if progress.total else 10
        begins = progress.elapsed_ns < self._at_ns  # another plan
        late = progress.elapsed_ns - self._at_ns >= _SLOW_S * 1e9
        if (progress.step, tenth) == (self._step, self._tenth) and not (begins or late):
            return
        self._step, self._tenth, self._at_ns = progress.step, tenth, progress.elapsed_ns
        self.say(line(progress))


def line(progress: WriteProgress) -> str:
    """Format progress.

    For example "rootfs.ext4: 40 %, 120.0 of 300.0 MiB, 18.3 MiB/s, 9 s left".
    """
    share = progress.done * 100 // progress.total if progress.total else 100
    unit, name = (_MIB, "MiB") if progress.total >= _MIB else (_KIB, "KiB")
    rate = f", {progress.rate / unit:.1f} {name}/s" if progress.rate else ""
    left = ""
    if eta_s := progress.eta_s:
        left = f", {eta_s:.0f} s left" if eta_s < 120 else f", {eta_s / 60:.0f} min left"
    return f"{progress.step}: {share} %, {progress.done / unit:.1f} of {progress.total / unit:.1f} {name}{rate}{left}"


def describe_plan(plan: Plan) -> str:
    """Format a plan in one line.

    For example "by sd-mux to /dev/sdb (usb-0:1.2), 5.2 GB in 3 steps, about 4 min".
    """
    target = plan.target
    identity_ = f" ({target.identity})" if target.identity else ""
    about = f", about {plan.estimate_s / 60:.0f} min" if plan.estimate_s and plan.estimate_s >= 60 else ""
    steps = "1 step" if len(plan.steps) == 1 else f"{len(plan.steps)} steps"
    where = f" to {target.device}{identity_}" if target.device else ""
    notes = "".join(f"; {note}" for note in plan.notes)
    size = f"{plan.total_bytes / 1e6:.1f} MB" if plan.total_bytes >= 1e6 else f"{plan.total_bytes / 1e3:.1f} kB"
    return f"by {plan.way}{where}, {size} in {steps}{about}{notes}"
