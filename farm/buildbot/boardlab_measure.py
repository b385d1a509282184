"""The step that is `lab run`: what it says of the job and of numbers that moved becomes properties of its build."""

import re

from buildbot.plugins import steps, util
from buildbot.process.logobserver import LogLineObserver
from buildbot.process.results import EXCEPTION, WARNINGS
from twisted.internet import defer

JOB = re.compile(r"job (j\d+): ")
VERDICT = "verdict: "


class Said(LogLineObserver):
    """Which job it is, and its verdicts."""

    def __init__(self):
        super().__init__()
        self.job, self.verdicts = "", []

    def outLineReceived(self, line):
        found = JOB.match(line)
        if found and not self.job:
            self.job = found[1]
        elif line.startswith(VERDICT):
            self.verdicts.append(line.removeprefix(VERDICT).strip())


class Measure(steps.ShellCommand):
    """`lab run`, begun a bounded number of times for one request."""

    def __init__(self, attempts, **kwargs):
        super().__init__(**kwargs)
        self.attempts = attempts
        self.said = Said()
        self.addLogObserver("stdio", self.said)

    @defer.inlineCallbacks
    def run(self):
        request = self.build.requests[0].id
        begun = yield self.master.data.get(("buildrequests", request, "builds"))
        if len(begun) > self.attempts:
            self.descriptionDone = [f"lost {len(begun) - 1} times: given up"]
            yield self.addCompleteLog(
                "given up",
                f"This was begun {len(begun) - 1} times, and each time its worker or its master was lost, a person had the "
                "board for all of the wait, or what surrounds it (labgrid's coordinator, the results) did not answer. `lab jobs list` shows how far it came; find out why, then start it again: what was "
                "measured is kept.\n",
            )
            return EXCEPTION
        self.setProperty("attempt", len(begun), "boardlab")
        result = yield super().run()
        self.setProperty("job", self.said.job, "boardlab")
        self.setProperty("verdicts", self.said.verdicts, "boardlab")
        return result

    def getResultSummary(self):
        if self.results == WARNINGS and self.said.verdicts:
            return {"step": "worse for sure", "build": "; ".join(self.said.verdicts)}
        return super().getResultSummary()


def measuring(attempts, **kwargs):
    return util.BuildFactory([Measure(attempts, **kwargs)])
