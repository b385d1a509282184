"""The step that is `lab run`: what it says of the job and of numbers that moved becomes properties of its build."""

import re

from buildbot.plugins import steps, util
from buildbot.process.build import Build
from buildbot.process.logobserver import LogLineObserver
from buildbot.process.results import EXCEPTION, RETRY, SUCCESS, WARNINGS
from twisted.internet import defer
from twisted.python import log

BUSY = " Wait for it with --wait SECONDS"  # after who has the board
JOB = re.compile(r"job (j\d+): ")
VERDICT = "verdict: "
UNMOVED = re.compile(r"run \d+: none of \d+ numbers has moved")
UNJUDGED = "not judged: "
BY_THE_LAB = "failed by the lab: "
UNASKED = "nobody asked the judge (`judge: false`, or no --judge)"


class Said(LogLineObserver):
    """Which job it is, its verdicts, whether all of it was judged, who has the board, and which faults of the lab alone made it fail."""

    def __init__(self):
        super().__init__()
        self.job, self.verdicts, self.busy, self.lab = "", [], "", ""
        self._judged, self._why = False, ""

    @property
    def unjudged(self):
        """Why nobody knows whether a number is worse; empty: the judge said so."""
        return self._why or ("" if self._judged or self.verdicts else UNASKED)

    def outLineReceived(self, line):
        found = JOB.match(line)
        if found and not self.job:
            self.job = found[1]
        elif line.startswith(VERDICT):
            self.verdicts.append(line.removeprefix(VERDICT).strip())
        elif line.startswith(UNJUDGED):
            self._why = self._why or line.removeprefix(UNJUDGED).strip()
        elif line.startswith(BY_THE_LAB):
            self.lab = line.removeprefix(BY_THE_LAB).strip()
        elif UNMOVED.match(line):
            self._judged = True

    def errLineReceived(self, line):
        if line.endswith(BUSY):
            self.busy = line.removesuffix(BUSY)


class Measure(steps.ShellCommand):
    """`lab run` or `lab health`, begun a bounded number of times for one request.

    patient: a build that found its board another's, and has said whose, is not counted; who waits so long has waited enough.
    numbers: there are some, which the judge judges.
    """

    def __init__(self, attempts, patient=False, numbers=True, **kwargs):
        super().__init__(**kwargs)
        self.attempts, self.patient, self.numbers = attempts, patient, numbers
        self.said = Said()
        self.addLogObserver("stdio", self.said)

    @defer.inlineCallbacks
    def run(self):
        request = self.build.requests[0].id
        begun = yield self.master.data.get(("buildrequests", request, "builds"))
        number = len(begun) - ((yield self._only_waited(begun)) if self.patient else 0)
        if number > self.attempts:
            self.descriptionDone = [f"lost {number - 1} times: given up"]
            yield self.addCompleteLog(
                "given up",
                f"This was begun {number - 1} times, and each time its worker or its master was lost, a person had the "
                "board for all of the wait, or what surrounds it (labgrid's coordinator, the results) did not answer. `lab jobs list` shows how far it came; find out why, then start it again: what was "
                "measured is kept.\n",
            )
            return EXCEPTION
        self.setProperty("attempt", number, "boardlab")
        result = yield super().run()
        self.setProperty("job", self.said.job, "boardlab")
        self.setProperty("verdicts", self.said.verdicts, "boardlab")
        self.setProperty("busy", self.said.busy, "boardlab")
        self.setProperty("lab", self.said.lab, "boardlab")
        if self.numbers:
            self.setProperty("judged", not self.said.unjudged, "boardlab")
            self.setProperty("unjudged", self.said.unjudged, "boardlab")
        return result

    @defer.inlineCallbacks
    def _only_waited(self, builds):
        """How many of them."""
        count = 0
        for build in builds:
            its = yield self.master.data.get(("builds", build["buildid"], "properties"))
            count += bool(its.get("busy", ("",))[0])
        return count

    def getResultSummary(self):
        if self.results == WARNINGS and self.said.verdicts:
            return {"step": "worse for sure", "build": "; ".join(self.said.verdicts)}
        if self.results == SUCCESS and self.numbers and self.said.unjudged:
            return {"step": "not judged", "build": f"measured, not judged: {self.said.unjudged}"}
        if self.results == RETRY and self.said.busy:
            return {"step": "busy", "build": self.said.busy}
        return super().getResultSummary()


class Ending(Build):
    """A build that ends whenever its worker goes, and after which that takes others whatever it found.

    Buildbot (4.3) takes no builds for a worker, for ten seconds and then for twice as long, up to an hour, after a build that ended as an exception:
    here that is a fault of one board's lab, or a wrong order, and the host has other boards. One that cannot prepare a build stays without builds.
    It asks something of a worker that has gone while the build was being prepared, or as it ended, and leaves it at the exception: the
    build is "preparing worker" for ever, or its request is never complete.
    """

    @defer.inlineCallbacks
    def startBuild(self, workerforbuilder):
        try:
            yield super().startBuild(workerforbuilder)
        except Exception:  # noqa: BLE001 - whatever it is, the build would hang
            log.err(None, "while a build was being prepared; it is queued again")
            if not self.finished:
                yield self.buildFinished(["worker", "lost"], RETRY)

    @defer.inlineCallbacks
    def buildFinished(self, text, results):
        worker = self.workerforbuilder.worker
        takes_builds = worker is not None and worker.quarantine_timer is None
        pause_s = takes_builds and worker.quarantine_timeout
        yield super().buildFinished(text, results)
        if takes_builds and worker.quarantine_timer is not None:
            worker.quarantine_timeout = pause_s
            worker.stopQuarantineTimer()
        if self in self.builder.building:
            self.workerforbuilder.buildFinished()
            self.builder.buildFinished(self, self.workerforbuilder)


def measuring(attempts, **kwargs):
    factory = util.BuildFactory([Measure(attempts, **kwargs)])
    factory.buildClass = Ending
    return factory
