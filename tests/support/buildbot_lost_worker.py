"""A program for Buildbot's own environment: builds whose worker goes while they are prepared, or as they end; prints how each ended."""

from __future__ import annotations

from unittest.mock import MagicMock, Mock

from boardlab import measuring
from buildbot.process.results import EXCEPTION, SUCCESS, statusToString
from buildbot.worker.base import Worker
from twisted.internet import defer


def build():
    """A build with a worker that has gone, and a master that does what it is asked to."""
    updates = MagicMock()
    updates.addBuild.return_value = defer.succeed((1, 1))
    updates.addStep.return_value = defer.succeed((1, 0, "worker_preparation"))
    request = MagicMock(id=7)
    request.mergeSourceStampsWith.return_value = []
    made = measuring(1, command=["true"]).newBuild([request], MagicMock())
    made.master.data.updates = updates
    made.master.botmaster.remove_in_progress_buildrequest.return_value = None
    made.builder.config.do_build_if.return_value = True
    made.builder.config.locks = made.locks = []
    made.builder.building = [made]
    made.builder.buildFinished = Mock(side_effect=lambda ended, _worker: made.builder.building.remove(ended))
    made.setupBuild = Mock()
    made.workerforbuilder = Mock(worker=None)
    return made


def told(made):
    """How the build ended, by the master's data, and whether its builder knows."""
    (finished,) = made.master.data.updates.finishBuild.call_args_list
    return statusToString(finished.args[1]), made.builder.building == []


def lost_while_preparing():
    made = build()
    gone = made.workerforbuilder

    def goes():
        gone.worker = None
        return False

    gone.worker = MagicMock()
    gone.worker.acquireLocks.side_effect = goes
    made.startBuild(gone)
    return told(made)


def lost_after_the_ping():
    made = build()
    gone = made.workerforbuilder
    gone.worker = MagicMock()
    gone.substantiate_if_needed.return_value = defer.succeed(True)

    def goes():
        gone.worker = None
        return defer.succeed(True)

    gone.ping.side_effect = goes
    made.startBuild(gone)
    return told(made)


def lost_as_it_ended(results):
    made = build()
    made.conn, made.stopBuildConsumer = None, Mock()
    made.buildFinished(["ended"], results)
    return told(made)


class Host(Worker):
    """One that is here."""

    master = botmaster = Mock()
    name = "host"

    def __init__(self):
        pass


def kept_without_builds(*, prepared):
    """Whether the worker takes no builds after one that ended as an exception, and for how long it will be the next time."""
    made = build()
    made.conn, made.stopBuildConsumer, made._preparation_step = None, Mock(), MagicMock()
    worker = made.workerforbuilder.worker = Host()
    if not prepared:
        made.buildPreparationFailure("why", "worker_ping")
    made.buildFinished(["ended"], EXCEPTION)
    return worker.quarantine_timer is not None, worker.quarantine_timeout


if __name__ == "__main__":
    for found in (
        lost_while_preparing(),
        lost_after_the_ping(),
        lost_as_it_ended(EXCEPTION),
        lost_as_it_ended(SUCCESS),
        kept_without_builds(prepared=True),
        kept_without_builds(prepared=False),
    ):
        print(*found)
