"""Steps, schedulers and reports of boardlab for Buildbot.

A step is `lab run`, a scheduler watches releases, a report has the verdicts.
"""

import datetime as dt
import json
import os
import re
from pathlib import Path

from buildbot.data.resultspec import Filter
from buildbot.plugins import reporters, schedulers, steps, util
from buildbot.process.build import Build
from buildbot.process.logobserver import LogLineObserver
from buildbot.process.properties import Properties
from buildbot.process.results import CANCELLED, EXCEPTION, FAILURE, RETRY, SUCCESS, WARNINGS
from buildbot.reporters.generators.build import BuildStartEndStatusGenerator, BuildStatusGenerator
from buildbot.reporters.message import MessageFormatterFunction, MessageFormatterRenderable
from buildbot.schedulers.base import ReconfigurableBaseScheduler
from buildbot.util import runprocess
from twisted.internet import defer, reactor, task
from twisted.python import log

# --- The step: the output of `lab run` on its job and on moved numbers becomes properties of the build ---

BUSY = " Wait for it with --wait SECONDS"  # behind the holder of the board
JOB = re.compile(r"job (j\d+): ")
UNMOVED = re.compile(r"run \d+: none of \d+ numbers has moved")
UNASKED = "the judge was not asked (`judge: false`, or no --judge)"


class JobOutput(LogLineObserver):
    """Observer of the job, verdicts, holder and lab faults in the log."""

    def __init__(self):
        super().__init__()
        self.job, self.verdicts, self.busy, self.lab, self.unconfirmed = "", [], "", "", ""
        self._judged, self._why = False, ""

    @property
    def unjudged(self):
        """Reason why the numbers have no verdict; empty: none."""
        return self._why or ("" if self._judged or self.verdicts else UNASKED)

    def outLineReceived(self, line):
        what, _, text = line.partition(": ")
        if what == "verdict":
            self.verdicts.append(text.strip())
        elif what == "not judged":
            self._why = self._why or text.strip()
        elif what == "not confirmed":
            self.unconfirmed = text.strip()
        elif what == "failed by the lab":
            self.lab = text.strip()
        elif UNMOVED.match(line):
            self._judged = True
        elif (found := JOB.match(line)) and not self.job:
            self.job = found[1]

    def errLineReceived(self, line):
        if line.endswith(BUSY):
            self.busy = line.removesuffix(BUSY)


class Measure(steps.ShellCommand):
    """`lab run`, or `lab health` (`check`), with a limit of attempts.

    A check of a board that another job holds is not counted, and has no numbers.
    """

    def __init__(self, attempts, check=False, **kwargs):
        super().__init__(**kwargs)
        self.attempts, self.check, self.said = attempts, check, JobOutput()
        self.addLogObserver("stdio", self.said)

    @defer.inlineCallbacks
    def run(self):
        builds = yield self.master.data.get(("buildrequests", self.build.requests[0].id, "builds"))
        number = len(builds)
        for build in builds if self.check else ():
            its = yield self.master.data.get(("builds", build["buildid"], "properties"))
            number -= bool(its.get("busy", ("",))[0])
        if number > self.attempts:
            self.descriptionDone = [f"lost {number - 1} times: given up"]
            why = (
                f"This was begun {number - 1} times, and each time its worker or its master was lost, a person had the board for all of "
                "the wait, or its surroundings (labgrid's coordinator, the results) did not answer. `lab jobs list` shows its "
                "progress; find the reason, then start it again: measured cycles are kept.\n"
            )
            yield self.addCompleteLog("given up", why)
            return EXCEPTION
        self.setProperty("attempt", number, "boardlab")
        result = yield super().run()
        for name in ("job", "verdicts", "busy", "lab", "unconfirmed", *(() if self.check else ("unjudged",))):
            self.setProperty(name, getattr(self.said, name), "boardlab")
        return result

    def getResultSummary(self):
        if self.results == WARNINGS and self.said.unconfirmed:
            return {"step": "not confirmed", "build": f"measured, not confirmed: {self.said.unconfirmed}"}
        if self.results == WARNINGS and self.said.verdicts:
            return {"step": "worse for sure", "build": "; ".join(self.said.verdicts)}
        if self.results == SUCCESS and not self.check and self.said.unjudged:
            return {"step": "not judged", "build": f"measured, not judged: {self.said.unjudged}"}
        if self.results == RETRY and self.said.busy:
            return {"step": "busy", "build": self.said.busy}
        return super().getResultSummary()


class RobustBuild(Build):
    """A build that ends whenever its worker goes.

    An exception of it blocks no other build of the worker.

    Buildbot 4.3 leaves a build unended, or its request incomplete, if the worker goes while it is prepared or as it ends. After an
    exception it takes no builds for the worker for 10 s, then twice as long, up to an hour; here that is one board's fault, and the host
    has others. A worker that cannot prepare a build stays without builds.
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
    factory.buildClass = RobustBuild
    return factory


# --- Requests: nights that went by, the check of the reference board first, and each release once ---

POLL_S = 5
CHECK_WAIT = dt.timedelta(hours=1)  # a check that cannot get its board for so long holds up nobody any more
AGAIN_S = 60  # between two questions about a file that is wrong: its images may still come
READ_S = 7200  # all images of a release


class Nights(schedulers.Nightly):
    """Timer of schedules that begin together, with a request for each.

    orders: builder and properties of each.
    """

    compare_attrs = ("orders",)

    def checkConfig(self, *args, orders, **kwargs):  # noqa: ARG002 - as Buildbot calls it
        super().checkConfig(*args, **kwargs)

    @defer.inlineCallbacks
    def reconfigService(self, *args, orders, **kwargs):
        yield super().reconfigService(*args, **kwargs)
        self.orders = orders

    @defer.inlineCallbacks
    def startBuild(self):
        for builder, about in self.orders if self.enabled else ():
            properties = Properties()
            properties.update(about, "Schedule")
            yield self.addBuildsetForSourceStampsWithDefaults(
                reason=f"{about['schedule']} is due",
                sourcestamps=[{"codebase": ""}],
                properties=properties,
                builderNames=[builder],
                priority=self.priority,
            )


def same_night(timers):
    """Skip an unstarted timer request before a later one (`collapseRequests`).

    Both must have the same order.
    """

    @defer.inlineCallbacks
    def collapse(master, _builder, later, earlier):
        if later["buildrequestid"] < earlier["buildrequestid"] or later["priority"] != earlier["priority"]:
            return False
        orders = []
        for each in (later, earlier):
            orders.append((yield master.data.get(("buildsets", str(each["buildsetid"]), "properties"))))
        begun = yield master.data.get(("buildrequests", earlier["buildrequestid"], "builds"))
        return orders[0] == orders[1] and orders[0].get("scheduler", ("",))[0] in timers and not begun

    return collapse


def after_check(check, below):
    """Hold back low-priority requests during the reference board's check (`canStartBuild`)."""
    looking = set()

    def look(builder):
        looking.discard(builder.name)
        builder.master.botmaster.maybeStartBuildsForBuilder(builder.name)

    @defer.inlineCallbacks
    def may_begin(builder, _worker, request):
        if request.priority >= below:
            return True
        number = yield builder.master.botmaster.builders[check].getBuilderId()
        waiting = yield builder.master.db.buildrequests.getBuildRequests(builderid=number, complete=False)
        if not any(each.submitted_at > dt.datetime.now(dt.UTC) - CHECK_WAIT for each in waiting):
            return True
        if builder.name not in looking:  # Buildbot asks again when something changes, which may be late
            looking.add(builder.name)
            reactor.callLater(POLL_S, look, builder)
        return False

    return may_begin


def release_files(folder):
    """Release files of a folder, oldest first.

    Hidden files, missing files and dangling links are omitted.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder: make it, or change farm.yaml")
    paths = [path for path in folder.glob("*.yaml") if not path.name.startswith(".")]
    return sorted((path for path in paths if written(path)), key=lambda path: (written(path), path.name))


def written(path):
    """When, in ns; 0: it cannot be looked at."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class Released(ReconfigurableBaseScheduler):
    """Scheduler of a build for each new, valid release file.

    Initially present files are not measured.
    """

    compare_attrs = ("folder", "env", "farm", "priority")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._looking, self._wrong, self._said = task.LoopingCall(self.look), {}, {}

    def checkConfig(self, builderNames, properties=None, codebases=None, priority=None, **_settings):
        super().checkConfig(builderNames, properties, codebases, priority)

    @defer.inlineCallbacks
    def reconfigService(self, folder, env, farm, **kwargs):
        yield super().reconfigService(**kwargs)
        self.folder, self.env, self.farm = Path(folder), env, farm

    @defer.inlineCallbacks
    def activate(self):
        yield super().activate()
        if self.enabled and not self._looking.running:
            self._looking.start(POLL_S).addErrback(log.err, f"{self.name}: looking for releases ended")

    @defer.inlineCallbacks
    def deactivate(self):
        yield super().deactivate()
        if self._looking.running:
            self._looking.stop()

    @defer.inlineCallbacks
    def look(self):
        try:
            known = yield self.getState("known", None)
            if known is None:
                yield self.setState("known", [path.name for path in release_files(self.folder)])
                return
            for path in release_files(self.folder):
                state, at = self._wrong.get(path.name, (None, 0))
                again = state != written(path) or reactor.seconds() - at >= AGAIN_S
                if path.name not in known and again and (yield self._measured(path)):
                    known.append(path.name)
                    yield self.setState("known", known)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may do
            self._say(str(self.folder), f"{type(error).__name__}: {error}")

    @defer.inlineCallbacks
    def _measured(self, path):
        """True: the file is another board's, or its request is there."""
        state, command = written(path), ["release", "check", "--settled", "--json", "--env", self.env, str(path)]
        code, out, err = yield runprocess.run_process(
            reactor,
            [self.farm["program"], *command],
            workdir=self.farm["directory"],
            env=self.farm["environ"],
            io_timeout=READ_S,
            runtime_timeout=READ_S,
        )
        try:
            (found,) = json.loads(out)
        except ValueError:
            why = err.decode(errors="replace").strip()[-400:] or f"`lab release check` ended with {code}"
            found = {"problems": [why]}
        if found["problems"]:
            self._wrong[path.name] = (state, reactor.seconds())
            self._say(path.name, f"{path} is not measured before it is right: {'; '.join(found['problems'])}")
            return False
        if found["fits"]:
            yield self._take(path)
        return True

    @defer.inlineCallbacks
    def _take(self, path):
        # A master that was killed before it knew the file may have made the request.
        called = f"{self.name}: {path.name}"
        if (yield self.master.data.get(("buildsets",), filters=[Filter("external_idstring", "eq", [called])])):
            return
        properties = Properties()
        properties.setProperty("provision", str(path), "Release file")
        properties.setProperty("release", path.name.removesuffix(".yaml"), "Release file")
        yield self.addBuildsetForSourceStampsWithDefaults(
            reason=f"{path.name} appeared",
            external_idstring=called,
            sourcestamps=[{"codebase": "", "revision": (yield commit_of(path)), **sourcestamp(self.farm["told"])}],
            properties=properties,
            priority=self.priority,
        )

    def _say(self, what, text):
        """Once."""
        if self._said.get(what) != text:
            self._said[what] = text
            log.msg(f"{self.name}: {text}")


@defer.inlineCallbacks
def commit_of(path):
    """Git commit of a file; None: it is in no checkout."""
    command = ["git", "-C", str(path.parent), "log", "-1", "--format=%H", "--", path.name]
    try:
        code, out, _ = yield runprocess.run_process(reactor, command, env=dict(os.environ))
    except OSError:  # no git here
        return None
    return out.decode().strip() or None if code == 0 else None


# --- Reports: a commit's status at GitHub or GitLab, a webhook, and Alertmanager of builds that failed ---

PAUSES_S = (1, 10, 60)
LONGEST = 140  # of GitHub's descriptions
FAILED = ("failing", "exception")
ENDED = ("passing", "warnings", *FAILED, "cancelled")  # and not those that are queued again
ALERT_LASTS = dt.timedelta(hours=1)  # longer than Alertmanager waits for what says more
OUTCOMES = {SUCCESS: "measured", WARNINGS: "worse", FAILURE: "failed", CANCELLED: "cancelled", RETRY: "queued again"}


def value(build, name, default=""):
    return build["properties"].get(name, (default,))[0]


def unjudged(build):
    """Reason why a build that measured all has no verdict, or no sure one; empty: none."""
    return value(build, {SUCCESS: "unjudged", WARNINGS: "unconfirmed"}.get(build["results"], ""))


def labs_fault(build):
    """Lab's faults that alone failed a build; empty: none.

    A build with verdicts has none.
    """
    return value(build, "lab") if build["results"] == FAILURE and not value(build, "verdicts", []) else ""


def outcome(build):
    """In a word of OUTCOMES, "broken" or "unjudged"."""
    if unjudged(build):
        return "unjudged"
    return "broken" if labs_fault(build) else OUTCOMES.get(build["results"], "broken")


def described(context):
    """One line for a commit."""
    build = context["build"]
    verdicts = value(build, "verdicts", [])
    line = OUTCOMES.get(build["results"], "broken")
    if verdicts:
        line += f": {verdicts[0]}" + (f" (and {len(verdicts) - 1} more)" if verdicts[1:] else "")
    if why := unjudged(build):
        line = f"measured, not judged: {why}"
    elif faults := labs_fault(build):
        line = f"failed by the lab: {faults}"
    elif build["results"] == SUCCESS and not verdicts:
        line += ", no number is worse for sure"
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def document(context):
    """A build's end for the webhook."""
    build = context["build"]
    revisions = [stamp["revision"] for stamp in build["buildset"]["sourcestamps"] if stamp["revision"]]
    return {
        **{name: value(build, name) for name in ("board", "suite", "schedule", "release", "job")},
        "revision": revisions[0] if revisions else None,
        "outcome": outcome(build),
        "unjudged": unjudged(build),
        "verdicts": value(build, "verdicts", []),
        "attempt": value(build, "attempt", 1),
        "url": build["url"],
    }


def alert_of(documents):
    """Alert of a failed build for `POST alerts` of Alertmanager's API v2.

    `documents`: the address of the runbooks.
    """

    def alert(context):
        build = context["build"]
        schedule = value(build, "schedule") or value(build, "scheduler")
        why = f"{outcome(build)}, {build['state_string']}"
        labels = {"schedule": schedule, "board": value(build, "board")}
        annotations = {
            "summary": f"{value(build, 'suite')} on {value(build, 'board')}: a build of {schedule} failed",
            "description": f"Buildbot does not begin it again: {why}. {build['url']} has what it said.",
            "runbook": "docs/runbooks.md#boardlabbuildfailed",
            "runbook_url": f"{documents}/runbooks/#boardlabbuildfailed",
        }
        return [
            {
                "labels": {"alertname": "BoardlabBuildFailed", "severity": "ticket", **labels},
                "annotations": annotations,
                "endsAt": (dt.datetime.now(dt.UTC) + ALERT_LASTS).isoformat(),
            }
        ]

    return alert


@defer.inlineCallbacks
def with_retries(send):
    """Send, with a limited number of repetitions.

    A server may be restarted, a connection cut.
    """
    for pause_s in PAUSES_S:
        try:
            return (yield send())
        except Exception as error:  # noqa: BLE001 - what HTTP clients and sockets have; the last one is told
            log.msg(f"no answer ({type(error).__name__}); it is told again in {pause_s} s")
        yield task.deferLater(reactor, pause_s, lambda: None)
    return (yield send())


class VerdictStatus:
    """Commit status of a build.

    A change for the worse or an unjudged build is no success, a fault of the lab is no failure. A build without
    a commit is not reported.
    """

    def createStatus(self, **status):
        return with_retries(lambda: super(VerdictStatus, self).createStatus(**status))

    def sendMessage(self, reports):
        (build,) = reports[0]["builds"]
        stamps = [stamp for stamp in build["buildset"]["sourcestamps"] if stamp["revision"]]
        results = FAILURE if build["results"] == WARNINGS else build["results"]
        if unjudged(build) or labs_fault(build):
            results = EXCEPTION
        told = {**build, "results": results, "buildset": {**build["buildset"], "sourcestamps": stamps}}
        return super().sendMessage([{**reports[0], "builds": [told]}])


class GitHub(VerdictStatus, reporters.GitHubStatusPush):
    pass


class GitLab(VerdictStatus, reporters.GitLabStatusPush):
    pass


class Webhook(reporters.HttpStatusPush):
    secrets = ("headers",)

    def sendMessage(self, reports):
        return with_retries(lambda: super(Webhook, self).sendMessage(reports))


def services(farm, unattended):
    """Those that farm.yaml names.

    `unattended`: the schedulers that no person starts; Alertmanager hears of their failed builds.
    """
    told, end = farm["told"], MessageFormatterFunction(described, "plain", want_properties=True)
    start = MessageFormatterRenderable("is measured")
    for name, reporter in (("github", GitHub), ("gitlab", GitLab)):
        if told[name]:
            yield reporter(
                token=util.Secret(name),
                context=util.Interpolate("boardlab/%(prop:suite)s on %(prop:board)s"),
                baseURL=told[name]["url"],
                generators=[BuildStartEndStatusGenerator(start_formatter=start, end_formatter=end)],
            )
    if hook := told["webhook"]:
        headers = {"Authorization": util.Interpolate("Bearer %(secret:webhook)s")} if hook["token"] else None
        formatter = MessageFormatterFunction(document, "json", want_properties=True)
        generators = [BuildStatusGenerator(mode=ENDED, message_formatter=formatter)]
        yield Webhook(hook["url"], name="webhook", headers=headers, generators=generators)
    if farm["alertmanager"]:
        formatter = MessageFormatterFunction(alert_of(farm["documents"]), "json", want_properties=True)
        started_by = [*sorted(unattended), "reference"]
        generators = [BuildStatusGenerator(mode=FAILED, schedulers=started_by, message_formatter=formatter)]
        yield Webhook(f"http://{farm['alertmanager']}/api/v2/alerts", name="alertmanager", generators=generators)


def sourcestamp(told):
    """Of which project the commits are."""
    return {
        "project": told["github"]["repository"] if told["github"] else "",
        "repository": f"{told['gitlab']['url']}/{told['gitlab']['repository']}" if told["gitlab"] else "",
    }
