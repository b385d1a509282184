"""Known failures: what a signature recognises, and which release has the fix."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve
from support.facts import missing_facts
from support.told_verdicts import BEGAN, moved

from lab.errors import ConfigurationError
from lab.farm import config
from lab.judge.known_failures import KnownFailure, KnownState, of_verdict
from lab.judge.text import changes

TICKET = "https://tracker.example.org/LAB-12"


@pytest.mark.parametrize(
    ("release", "fixed_in", "state"),
    [
        ("11.01", "", KnownState.OPEN),
        ("11.01.07", "11.02", KnownState.OPEN),
        ("11.02", "11.02", KnownState.RETURNED),
        ("11.03", "11.02", KnownState.RETURNED),
        ("11.02-rt", "11.02", KnownState.RETURNED),
        ("main-0412", "main-0420", KnownState.OPEN),
        ("main-0421", "main-0420", KnownState.RETURNED),
        ("main-g1234567", "main-g1234568", KnownState.UNCLEAR),
        ("main-0412", "11.02", KnownState.UNCLEAR),
    ],
)
def test_the_labels_tell_whether_a_release_has_the_fix(release: str, fixed_in: str, state: KnownState) -> None:
    assert KnownFailure(TICKET, metric="boot.time", fixed_in=fixed_in).state(release) is state


@pytest.mark.parametrize(
    ("known", "recognised"),
    [
        (KnownFailure(TICKET, metric="boot.*"), True),
        (KnownFailure(TICKET, metric="boot.time", direction="higher"), True),
        (KnownFailure(TICKET, metric="boot.time", direction="lower"), False),
        (KnownFailure(TICKET, metric="boot.time", board_types=("am64xx_evm",)), False),
        (KnownFailure(TICKET, metric="boot.time", board_types=("am62xx_sk",)), True),
        (KnownFailure(TICKET, metric="boot.stage"), False),
        (KnownFailure(TICKET, failure="kernel_panic"), False),
    ],
)
def test_a_number_is_recognised_by_metric_direction_and_board_type(known: KnownFailure, recognised: bool) -> None:
    assert (of_verdict([known], moved(effect=0.03)) is not None) == recognised


def test_a_number_that_got_better_is_no_known_failure_unless_the_direction_says_so() -> None:
    better = moved(effect=-0.03)
    assert of_verdict([KnownFailure(TICKET, metric="boot.time")], better) is None
    assert of_verdict([KnownFailure(TICKET, metric="boot.time", direction="lower")], better) is not None


def test_an_open_ticket_explains_what_came_back_after_another_ones_fix() -> None:
    fixed, open_again = (KnownFailure(TICKET, metric="boot.time", fixed_in=release) for release in ("11.02", ""))
    found = of_verdict([fixed, open_again], moved())
    assert found is not None
    assert (found.state, found.known) == (KnownState.OPEN, (open_again,))


def test_known_numbers_are_a_change_of_their_own_which_names_the_ticket() -> None:
    verdicts = [moved(), moved("boot.stage")]
    known = KnownFailure(TICKET, metric="boot.stage")
    new, old = sorted(changes(verdicts, BEGAN, [known]), key=lambda change: change.known is not None)
    assert [len(new.verdicts), len(old.verdicts)] == [1, 1]
    assert not missing_facts(new.title, "Regression", "am62x-1", "boot.time")
    assert not missing_facts(old.title, f"Known ({TICKET})", "Regression", "am62x-1", "boot.stage")
    (back,) = changes(verdicts[1:], BEGAN, [evolve(known, fixed_in="11.02")])
    assert not missing_facts(back.title, "Back", "11.02", f"({TICKET})", "Regression")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("ticket: LAB-12, metric: boot.time", "ticket: 'LAB-12': expected an address"),
        ("ticket: 'https://t/1'", "expected either `failure`, a class, or `metric`"),
        ("ticket: 'https://t/1', failure: panic", "failure: no class 'panic'"),
        ("ticket: 'https://t/1', failure: kernel_panic, pattern: '('", "pattern: '\\(' is no regular expression"),
        ("ticket: 'https://t/1', metric: boot.time, pattern: x", "`pattern` is of a `failure`"),
        ("ticket: 'https://t/1', metric: boot.time, direction: up", "direction"),
        ("ticket: 'https://t/1', metric: boot.time, fixed: '11.02'", "is 'fixed_in' meant"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(tmp_path: Path, keys: str, message: str) -> None:
    file = tmp_path / "farm.yaml"
    file.write_text(f"known:\n  - {{{keys}}}\n")
    with pytest.raises(ConfigurationError, match=rf"farm\.yaml.*{message}"):
        config.load(file)


def test_farm_yaml_has_the_lab_s_known_failures(tmp_path: Path) -> None:
    file = tmp_path / "farm.yaml"
    entry = f"{{ticket: '{TICKET}', failure: kernel_panic, pattern: 'Unable to mount', board_types: [am62xx_sk], fixed_in: '11.02'}}"
    file.write_text(f"known: [{entry}]\n")
    (known,) = config.load(file).known
    assert known == KnownFailure(
        TICKET, "kernel_panic", "Unable to mount", board_types=("am62xx_sk",), fixed_in="11.02"
    )
