"""A board that a command holds as a job: how the job ends tells who asks again whether it may."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.facts import missing_facts

from lab.cli.main import main
from lab.errors import BoardlabError, LabStableError, LabTransientError
from lab.farm.job_queue import open_queue
from lab.farm.runner import BROKEN
from lab.jobs import lease
from lab.jobs.records import BY_PROVISION, Order
from lab.jobs.waiting import PLACE_BUSY, has_no_place
from lab.results import open_store

ORDER = Order("am62xx_sk", "sk-1", ("provision",), "", "11.01", None)


@pytest.mark.parametrize(
    ("failure", "raised", "state"),
    [
        pytest.param(PLACE_BUSY, lease.BusyBoardError, "refused", id="another host's job has the place"),
        pytest.param("console_link", LabTransientError, "failed", id="a fault of the lab"),
    ],
)
def test_a_place_that_is_anothers_is_a_busy_board(
    tmp_path: Path, failure: str, raised: type[BoardlabError], state: str
) -> None:
    with open_store(str(tmp_path / "results.db")) as store:
        book = open_queue(store, BY_PROVISION)
        with (
            pytest.raises(raised, match="somebody"),
            lease.hold_board(book, ORDER, 0, lambda _: None, has_no_place) as job,
        ):
            raise LabTransientError("somebody has it", failure=failure)
        assert book.job(job.id).state == state


AWAY = LabTransientError("the server does not answer", failure="results")


def test_results_that_do_not_answer_are_waited_for_as_long_as_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, said, waited = [AWAY, AWAY], list[str](), list[float]()

    def opened(url: str, **_how: object) -> object:
        if faults:
            raise faults.pop()
        return url

    monkeypatch.setattr(lease, "open_store", opened)
    assert lease.open_results("results", 60, said.append, waited.append) == "results"
    assert (len(said), len(waited)) == (1, 2)
    assert not missing_facts(said[0], "waits", "does not answer")
    faults.append(AWAY)
    with pytest.raises(LabTransientError):
        lease.open_results("results", 0, said.append, waited.append)
    faults.append(LabStableError("damaged"))
    with pytest.raises(LabStableError):
        lease.open_results("results", 60, said.append, waited.append)
    assert len(waited) == 2


@pytest.mark.parametrize("words", [("run", "--env", "none.yaml")])
def test_a_command_with_wait_outlasts_a_restart_of_the_results(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[BoardlabError] = [LabStableError("damaged"), AWAY]

    def opened(_url: str, **_how: object) -> object:
        raise faults.pop()

    monkeypatch.setattr(lease, "open_store", opened)
    monkeypatch.setattr(lease, "POLL_S", 0.0)
    assert main([*words, "--db", "postgresql://x@127.0.0.1:9/lab", "--wait", "60"]) == BROKEN
    assert not faults
