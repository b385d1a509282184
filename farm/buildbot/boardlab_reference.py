"""The reference board is first each night: while its check waits or runs, builds that nobody waits for are held back."""

import datetime as dt

from twisted.internet import defer, reactor

POLL_S = 5
LIMIT = dt.timedelta(hours=1)  # a check that cannot get its board for so long holds up nobody any more


class AfterReference:
    """Of a builder: whether it may begin a request now (`canStartBuild`).

    name: of the builder that checks the reference board; None: the lab has none. below: requests of a lower priority wait for it.
    """

    def __init__(self, name, below):
        self.name, self.below = name, below
        self._looking = set()

    @defer.inlineCallbacks
    def __call__(self, builder, _worker, request):
        if self.name is None or request.priority >= self.below:
            return True
        checked = builder.master.botmaster.builders.get(self.name)
        number = yield checked.getBuilderId()
        waiting = yield builder.master.db.buildrequests.getBuildRequests(builderid=number, complete=False)
        oldest = dt.datetime.now(dt.UTC) - LIMIT
        if not any(each.submitted_at > oldest for each in waiting):
            return True
        self._look_again(builder)
        return False

    def _look_again(self, builder):
        """Buildbot asks again when something changes on the builder's own worker, and the reference board may be another's."""
        if builder.name in self._looking:
            return
        self._looking.add(builder.name)

        def look():
            self._looking.discard(builder.name)
            builder.master.botmaster.maybeStartBuildsForBuilder(builder.name)

        reactor.callLater(POLL_S, look)
