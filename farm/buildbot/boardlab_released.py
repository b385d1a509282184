"""A Buildbot scheduler: each release file that appears in a folder, whole and right, is measured once."""

import json
import os
from pathlib import Path

from buildbot.data.resultspec import Filter
from buildbot.process.properties import Properties
from buildbot.schedulers.base import ReconfigurableBaseScheduler
from buildbot.util import runprocess
from twisted.internet import defer, reactor, task
from twisted.python import log

POLL_S = 5
AGAIN_S = 60  # between two questions about a file that is wrong: its images may still come
CHECK_S = 7200  # to read all its images


def there(folder):
    """The release files of a folder, the one that was written first first; no hidden ones, and none that is gone or a link to nothing."""
    paths = [path for path in folder.glob("*.yaml") if not path.name.startswith(".")]
    return sorted((path for path in paths if state_of(path)), key=lambda path: (state_of(path), path.name))


def state_of(path):
    """When it was written, in ns; 0: it cannot be looked at."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class Released(ReconfigurableBaseScheduler):
    """What was there when it looked first is known, and not measured.

    What was taken is what the database has builds of, so a master that is killed at any point neither forgets a file nor takes it twice; then it is known, too.
    """

    compare_attrs = ("folder", "command", "environ", "directory", "priority", "told")

    def checkConfig(self, builderNames, properties=None, codebases=None, priority=None, **_settings):
        super().checkConfig(builderNames, properties, codebases, priority)

    @defer.inlineCallbacks
    def reconfigService(self, builderNames, folder, command, environ, directory, told, priority=None, **kwargs):
        yield super().reconfigService(builderNames, **kwargs)
        self.folder, self.command, self.environ, self.directory = Path(folder), command, environ, directory
        self.priority, self.told = priority, told
        self._looking, self._wrong, self._said = None, {}, {}

    @defer.inlineCallbacks
    def activate(self):
        yield super().activate()
        if self.enabled:
            self._looking = task.LoopingCall(self.look)
            self._looking.start(POLL_S).addErrback(log.err, f"{self.name}: looking for releases ended")

    @defer.inlineCallbacks
    def deactivate(self):
        yield super().deactivate()
        if self._looking is not None and self._looking.running:
            self._looking.stop()

    @defer.inlineCallbacks
    def look(self):
        try:
            yield self._look()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look may do
            self._say(str(self.folder), f"{type(error).__name__}: {error}")

    @defer.inlineCallbacks
    def _look(self):
        paths = there(self.folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(f"{self.folder} is no folder: make it, or change farm.yaml")
        known = yield self.getState("known", None)
        if known is None:
            yield self.setState("known", [path.name for path in paths])
            return
        new = [path for path in paths if path.name not in known and self._worth_asking(path)]
        taken = yield self._taken(new)
        for path in new:
            if self._called(path) in taken:
                yield self._know(path)
            else:
                yield self._ask(path)

    @defer.inlineCallbacks
    def _taken(self, paths):
        """What the database has builds of."""
        if not paths:
            return set()
        called = [self._called(path) for path in paths]
        found = yield self.master.data.get(("buildsets",), filters=[Filter("external_idstring", "in", called)])
        return {buildset["external_idstring"] for buildset in found}

    @defer.inlineCallbacks
    def _know(self, path):
        """Ask nothing of it any more."""
        known = yield self.getState("known")
        yield self.setState("known", [*known, path.name])

    def _called(self, path):
        return f"{self.name}: {path.name}"

    def _worth_asking(self, path):
        state, at = self._wrong.get(path.name, (None, 0))
        return state != state_of(path) or reactor.seconds() - at >= AGAIN_S

    @defer.inlineCallbacks
    def _ask(self, path):
        state = state_of(path)
        code, out, err = yield runprocess.run_process(
            reactor,
            [*self.command, str(path)],
            workdir=self.directory,
            env=self.environ,
            io_timeout=CHECK_S,
            runtime_timeout=CHECK_S,
        )
        try:
            (found,) = json.loads(out)
        except ValueError:
            found = {
                "problems": [err.decode(errors="replace").strip()[-400:] or f"`lab release check` ended with {code}"]
            }
        if found["problems"]:
            self._wrong[path.name] = (state, reactor.seconds())
            self._say(path.name, f"{path} is not measured before it is right: {'; '.join(found['problems'])}")
        elif not found["fits"]:
            yield self._know(path)
        else:
            yield self._take(path)
            yield self._know(path)

    @defer.inlineCallbacks
    def _take(self, path):
        commit = yield self._commit(path)
        yield self.addBuildsetForSourceStampsWithDefaults(
            reason=f"{path.name} appeared",
            external_idstring=self._called(path),
            sourcestamps=[{"codebase": "", "revision": commit, **self.told}],
            properties=self._release(path),
            priority=self.priority,
        )

    def _release(self, path):
        found = Properties()
        found.setProperty("provision", str(path), "Release file")
        found.setProperty("release", path.name.removesuffix(".yaml"), "Release file")
        return found

    @defer.inlineCallbacks
    def _commit(self, path):
        """The commit that the file is of, where its folder is in a checkout of git; else None."""
        command = ["git", "-C", str(path.parent), "log", "-1", "--format=%H", "--", path.name]
        try:
            code, out, _ = yield runprocess.run_process(reactor, command, env=dict(os.environ))
        except OSError:  # no git here
            return None
        return out.decode().strip() or None if code == 0 else None

    def _say(self, what, text):
        """Once."""
        if self._said.get(what) != text:
            self._said[what] = text
            log.msg(f"{self.name}: {text}")
