"""All patterns of a board type, by their places in its TOML file, each with where it is from."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from lab.boards.model import BoardType

ASSUMED = "assumed"


@frozen
class Pattern:
    """A pattern.

    Attributes:
        where: its place, e.g. "moments.spl".
        reference: where it is from, and what of it is `ASSUMED`; empty: from nowhere.
    """

    where: str
    text: str
    reference: str

    @property
    def assumed(self) -> bool:
        """Whether it, or a part of it, is from nowhere."""
        return not self.reference or ASSUMED in self.reference


def patterns(board: BoardType) -> list[Pattern]:
    """Every pattern that a board type looks for, those that it shares with others included."""
    return [pattern for pattern in (*_with_their_own(board), *_in_the_table(board)) if pattern.text]


def _with_their_own(board: BoardType) -> Iterator[Pattern]:
    for moment in board.moments:
        yield Pattern(f"moments.{moment.name}", moment.pattern, moment.reference)
    for name, flow in board.flows.items():
        yield Pattern(f"flows.{name}.unlike", flow.unlike, flow.reference)
        for moment in flow.moments:
            yield Pattern(f"flows.{name}.moments.{moment.name}", moment.pattern, moment.reference)
    for evidence in board.evidence:
        for text in (evidence.pattern, evidence.confirmed_by):
            yield Pattern(f"evidence.{evidence.source}", text, evidence.reference)
    for table, signs in (("failures", board.failures), ("troubles", board.troubles)):
        for text, sign in signs.items():
            yield Pattern(table, text, sign.reference)


def _in_the_table(board: BoardType) -> Iterator[Pattern]:
    """The patterns whose references stand in the table `references`."""
    prompts = board.prompts
    of_prompts = [("uboot", prompts.uboot), ("login", prompts.login), ("shell", prompts.shell)]
    found = {
        "rom": [board.rom],
        "planned_reset": [board.planned_reset],
        **{f"prompts.{name}": [text] for name, text in (*of_prompts, ("autoboot", prompts.autoboot))},
        "low_power.resume_start": board.low_power.resume_start if board.sleep else [],
    }
    for where, texts in found.items():
        for text in texts:
            yield Pattern(where, text, board.references.get(where, ""))
