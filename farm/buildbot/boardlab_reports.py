"""Who is told of builds: a commit's status at GitHub or GitLab, a webhook, and Alertmanager of those that failed. A build has ended when the judge is sure, so what is told is confirmed."""

from buildbot.plugins import reporters, secrets, util
from buildbot.process.results import CANCELLED, EXCEPTION, FAILURE, RETRY, SUCCESS, WARNINGS
from buildbot.reporters.base import ReporterBase
from buildbot.reporters.generators.build import BuildStartEndStatusGenerator, BuildStatusGenerator
from buildbot.reporters.message import MessageFormatterFunction, MessageFormatterRenderable
from buildbot.util import runprocess
from twisted.internet import defer, reactor, task
from twisted.python import log

PAUSES_S = (1, 10, 60)
LONGEST = 140  # of GitHub's descriptions
OUTCOMES = {
    SUCCESS: "measured",
    WARNINGS: "worse",
    FAILURE: "failed",
    EXCEPTION: "broken",
    CANCELLED: "cancelled",
    RETRY: "queued again",
}
POST_S = 120
FAILED = ("failing", "exception")
ENDED = ("passing", "warnings", "failing", "exception", "cancelled")  # and not those that are queued again


def value(build, name, default=""):
    return build["properties"].get(name, (default,))[0]


def unjudged(build):
    """Why a build that measured all says nothing of its numbers; empty: it does, or it measured nothing."""
    return value(build, "unjudged") if build["results"] == SUCCESS else ""


def labs_fault(build):
    """The lab's faults for which alone a build failed; empty: it did not, something else failed, too, or the judge says something of its numbers."""
    return value(build, "lab") if build["results"] == FAILURE and not value(build, "verdicts", []) else ""


def outcome(build):
    """In a word of OUTCOMES, or "unjudged"."""
    results = EXCEPTION if labs_fault(build) else build["results"]
    return "unjudged" if unjudged(build) else OUTCOMES.get(results, "broken")


def described(context):
    """One line for a commit."""
    build = context["build"]
    verdicts = value(build, "verdicts", [])
    line = OUTCOMES.get(build["results"], "")
    if verdicts:
        line += f": {verdicts[0]}"
        line += f" (and {len(verdicts) - 1} more)" if verdicts[1:] else ""
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
    stamps = build["buildset"]["sourcestamps"]
    return {
        "board": value(build, "board"),
        "suite": value(build, "suite"),
        "schedule": value(build, "schedule"),
        "release": value(build, "release"),
        "revision": next((stamp["revision"] for stamp in stamps if stamp["revision"]), None),
        "outcome": outcome(build),
        "unjudged": unjudged(build),
        "verdicts": value(build, "verdicts", []),
        "job": value(build, "job"),
        "attempt": value(build, "attempt", 1),
        "url": build["url"],
    }


@defer.inlineCallbacks
def patiently(send):
    """Send, and again a bounded number of times where there is no answer: a server is restarted, a connection is cut."""
    for pause_s in PAUSES_S:
        try:
            return (yield send())
        except Exception as error:  # noqa: BLE001 - what HTTP clients and sockets have; the last one is told
            log.msg(f"no answer ({type(error).__name__}); it is told again in {pause_s} s")
        yield task.deferLater(reactor, pause_s, lambda: None)
    return (yield send())


class Sure:
    """Worse for sure is no success of a commit, nor are numbers that nobody judged, a fault of the lab is no failure of a commit, and a build of no commit is nobody's."""

    def createStatus(self, **status):
        return patiently(lambda: super(Sure, self).createStatus(**status))

    def sendMessage(self, reports):
        (build,) = reports[0]["builds"]
        stamps = [stamp for stamp in build["buildset"]["sourcestamps"] if stamp["revision"]]
        results = FAILURE if build["results"] == WARNINGS else build["results"]
        if unjudged(build) or labs_fault(build):
            results = EXCEPTION
        told = {**build, "results": results, "buildset": {**build["buildset"], "sourcestamps": stamps}}
        return super().sendMessage([{**reports[0], "builds": [told]}])


class GitHub(Sure, reporters.GitHubStatusPush):
    pass


class GitLab(Sure, reporters.GitLabStatusPush):
    pass


class Webhook(reporters.HttpStatusPush):
    secrets = ("headers",)

    def sendMessage(self, reports):
        return patiently(lambda: super(Webhook, self).sendMessage(reports))


class Alert(ReporterBase):
    """Alertmanager, by `lab farm notify-build`, of builds that a schedule began and that failed, and are not begun again."""

    name = "alert"
    compare_attrs = ("command", "environ", "directory", "schedules")

    def checkConfig(self, generators, **_settings):
        super().checkConfig(generators)

    @defer.inlineCallbacks
    def reconfigService(self, generators, command, environ, directory, schedules):
        yield super().reconfigService(generators)
        self.command, self.environ, self.directory, self.schedules = command, environ, directory, schedules

    @defer.inlineCallbacks
    def sendMessage(self, reports):
        (build,) = reports[0]["builds"]
        if value(build, "scheduler") in self.schedules:
            yield patiently(lambda: self._post(build))

    @defer.inlineCallbacks
    def _post(self, build):
        about = {"schedule": value(build, "scheduler"), "board": value(build, "board"), "page": build["url"]}
        said = f"{outcome(build)}, {build['state_string']}"
        words = [f"--{name}={text}" for name, text in {**about, "said": said}.items()]
        code, _, err = yield runprocess.run_process(
            reactor,
            [*self.command, *words, "--", value(build, "buildername")],
            workdir=self.directory,
            env=self.environ,
            runtime_timeout=POST_S,
        )
        if code != 0:
            raise RuntimeError(f"nobody is told of {build['url']}: {err.decode(errors='replace').strip()[-400:]}")


def commit_generators():
    end = MessageFormatterFunction(described, "plain", want_properties=True)
    return [BuildStartEndStatusGenerator(start_formatter=MessageFormatterRenderable("is measured"), end_formatter=end)]


def alert(farm):
    """Whom Alertmanager tells, where farm.yaml names it."""
    if not farm["alerts"]:
        return []
    formatter = MessageFormatterFunction(described, "plain", want_properties=True)
    return [
        Alert(
            command=[farm["program"], "farm", "notify-build", farm["alerts"]],
            environ=farm["environ"],
            directory=farm["directory"],
            schedules=[schedule["name"] for schedule in farm["schedules"]] + ["reference"],
            generators=[BuildStatusGenerator(mode=FAILED, message_formatter=formatter)],
        )
    ]


def services(told):
    """Those that farm.yaml names."""
    context = util.Interpolate("boardlab/%(prop:buildername)s")
    found = []
    if told["github"]:
        found.append(
            GitHub(
                token=util.Secret("github"),
                context=context,
                baseURL=told["github"]["url"],
                generators=commit_generators(),
            )
        )
    if told["gitlab"]:
        found.append(
            GitLab(
                token=util.Secret("gitlab"),
                context=context,
                baseURL=told["gitlab"]["url"],
                generators=commit_generators(),
            )
        )
    if told["webhook"]:
        formatter = MessageFormatterFunction(document, "json", want_properties=True)
        headers = (
            {"Authorization": util.Interpolate("Bearer %(secret:webhook)s")} if told["webhook"]["token"] else None
        )
        generators = [BuildStatusGenerator(mode=ENDED, message_formatter=formatter)]
        found.append(Webhook(told["webhook"]["url"], headers=headers, generators=generators))
    return found


def providers(folder):
    """Where the tokens are: files of these names, which nobody else can read."""
    return [secrets.SecretInAFile(dirname=str(folder))]


def sourcestamp(told):
    """Of which project the commits are."""
    found = {"project": "", "repository": ""}
    if told["github"]:
        found["project"] = told["github"]["repository"]
    if told["gitlab"]:
        found["repository"] = f"{told['gitlab']['url']}/{told['gitlab']['repository']}"
    return found
