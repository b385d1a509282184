"""Whose build is next: by priority and age, as jobs that wait for a board without Buildbot; and what a build waits for beside its locks."""

import math

from buildbot.process.buildrequest import BuildRequest
from twisted.internet import defer

LAST = (math.inf, 0)


class Turns:
    """The order of requests is that of one instant each: when it was asked for, less what its priority is worth.

    Two that wait age alike, so whoever comes later than that worth is behind, and nobody waits for ever.

    point_s: what a point of priority is worth, as in lab/jobs/queue.py.
    """

    def __init__(self, point_s):
        self.point_s = point_s

    def turn(self, request):
        return request.submitted_at.timestamp() - request.priority * self.point_s, request.buildrequestid

    @defer.inlineCallbacks
    def first(self, builder, requests):
        """Of a builder's requests the next one (`nextBuild`).

        Buildbot leaves out those that found their board taken; when it is free in that moment, none that comes later goes before them.
        """
        number = yield builder.getBuilderId()
        waiting = yield builder.master.db.buildrequests.getBuildRequests(builderid=number, claimed=False)
        turns = {each.buildrequestid: self.turn(each) for each in waiting}
        asked = [request for request in requests if request.id in turns]
        if not asked:
            return None
        found = min(asked, key=lambda request: turns[request.id])
        left_out = [each for each in waiting if each.buildrequestid not in {request.id for request in asked}]
        before = min((each for each in left_out if self.turn(each) < turns[found.id]), key=self.turn, default=None)
        if before is not None and (yield self._may_begin(builder, before)):
            builder.master.botmaster.maybeStartBuildsForBuilder(builder.name)
            return None
        return found

    @defer.inlineCallbacks
    def _may_begin(self, builder, waiting):
        request = yield BuildRequest.fromBrdict(builder.master, waiting)
        for worker in builder.getAvailableWorkers():
            if (yield builder.canStartBuild(worker, request)):
                return True
        return False

    @defer.inlineCallbacks
    def builders(self, master, builders):
        """The builders, the one with the request whose turn it is first (`prioritizeBuilders`)."""
        waiting = yield master.db.buildrequests.getBuildRequests(claimed=False)
        best = {}
        for each in waiting:
            best[each.builderid] = min(best.get(each.builderid, LAST), self.turn(each))
        ranks = {}
        for builder in builders:
            ranks[builder.name] = best.get((yield builder.getBuilderId()), LAST)
        return sorted(builders, key=lambda builder: (ranks[builder.name], builder.name))


class Room:
    """Of a builder: whether a request may begin beside the builds of its host.

    Buildbot's locks are taken when the build is prepared, so of several that begin in one moment all but one would wait for them as
    builds, and the place of each at the host would be nobody's.

    board, host: the builders of its board, and of its host. scheduled: names of farm.yaml's schedules. most: of their builds at once on the host.
    """

    def __init__(self, board, host, scheduled, most):
        self.board, self.host, self.scheduled, self.most = board, host, scheduled, most

    def __call__(self, builder, _worker, request):
        builders = builder.master.botmaster.builders
        if any(builders[name].building for name in self.board if name in builders):
            return False
        if not self._is_scheduled(request):
            return True
        running = [build for name in self.host if name in builders for build in builders[name].building]
        return sum(self._is_scheduled(build.requests[0]) for build in running) < self.most

    def _is_scheduled(self, request):
        return request.properties.getProperty("scheduler") in self.scheduled


def all_of(*conditions):
    """Whether a request may begin (`canStartBuild`): each of these says so."""

    @defer.inlineCallbacks
    def may_begin(builder, worker, request):
        for condition in conditions:
            if not (yield condition(builder, worker, request)):
                return False
        return True

    return may_begin


class SameNight:
    """Of two requests of a builder: whether the later one makes the earlier one needless (`collapseRequests`), which is skipped then.

    So it is where a timer asked for both with the same order, and the earlier one was never begun: nights that went by while its worker was away.

    timers: names of the schedules that come due by the clock.
    """

    def __init__(self, timers):
        self.timers = timers

    @defer.inlineCallbacks
    def __call__(self, master, _builder, later, earlier):
        if later["buildrequestid"] < earlier["buildrequestid"] or later["priority"] != earlier["priority"]:
            return False
        orders = []
        for each in (later, earlier):
            orders.append((yield master.data.get(("buildsets", str(each["buildsetid"]), "properties"))))
        if orders[0] != orders[1] or orders[0].get("scheduler", ("",))[0] not in self.timers:
            return False
        begun = yield master.data.get(("buildrequests", earlier["buildrequestid"], "builds"))
        return not begun
