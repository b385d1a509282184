"""Tests for Buildbot's own environment (`python -m twisted.trial`): whose build is next, what is skipped, what is told, and what is asked of the database."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

from boardlab_measure import Said
from boardlab_released import Released
from boardlab_reports import Sure, described, document
from boardlab_turns import Room, SameNight, Turns, all_of
from buildbot.process.buildrequest import BuildRequestCollapser
from buildbot.process.results import EXCEPTION, FAILURE, SKIPPED, SUCCESS, WARNINGS
from buildbot.test import fakedb
from buildbot.test.fake import fakemaster
from buildbot.test.reactor import TestReactorMixin
from twisted.internet import defer
from twisted.trial import unittest

HOUR_S = 3600
PERSONS, TIMERS = 10, 0
NOW_S = 1_800_000_000


class Queue(TestReactorMixin, unittest.TestCase):
    """Of a master with a database, two builders of a board, and one of another board."""

    suppress = ((("ignore",), {"category": DeprecationWarning}),)  # of what Buildbot uses

    @defer.inlineCallbacks
    def setUp(self):
        self.setup_test_reactor()
        self.master = yield fakemaster.make_master(self, wantData=True, wantDb=True)
        self.master.botmaster.maybeStartBuildsForBuilder = Mock()
        self.builders = {number: self.builder(number) for number in (1, 2, 3)}
        self.master.botmaster.builders = {builder.name: builder for builder in self.builders.values()}
        self.turns = Turns(1440.0)
        yield self.master.db.insert_test_data(
            [
                fakedb.Master(id=fakedb.FakeDBConnector.MASTER_ID),
                fakedb.Worker(id=1, name="host"),
                fakedb.SourceStamp(id=1),
                *(fakedb.Builder(id=number, name=f"builder {number}") for number in self.builders),
            ]
        )

    def builder(self, number):
        found = Mock(master=self.master, building=[])
        found.name = f"builder {number}"
        found.getBuilderId.side_effect = lambda: defer.succeed(number)
        found.getAvailableWorkers.return_value = ["worker"]
        found.getCollapseRequestsFn.return_value = SameNight({"nightly", "weekly"})
        return found

    def asked(self, number, ago_s, priority=PERSONS, builder=1, scheduler="measure", **properties):
        """A request."""
        rows = [
            fakedb.Buildset(id=number, submitted_at=NOW_S - ago_s),
            fakedb.BuildsetSourceStamp(buildsetid=number, sourcestampid=1),
            fakedb.BuildRequest(
                id=number, buildsetid=number, builderid=builder, priority=priority, submitted_at=NOW_S - ago_s
            ),
        ]
        given = {
            "scheduler": (scheduler, "Scheduler"),
            **{name: (value, "Scheduler") for name, value in properties.items()},
        }
        rows += [
            fakedb.BuildsetProperty(buildsetid=number, property_name=name, property_value=json.dumps(value))
            for name, value in given.items()
        ]
        return self.master.db.insert_test_data(rows)

    @defer.inlineCallbacks
    def next_of(self, numbers, free=()):
        """Which of these is next; of the others, which found their board taken, `free` may begin now."""
        builder = self.builders[1]
        builder.canStartBuild.side_effect = lambda _worker, request: defer.succeed(request.id in free)
        found = yield self.turns.first(builder, [SimpleNamespace(id=number) for number in numbers])
        return found and found.id

    @defer.inlineCallbacks
    def test_a_person_comes_before_a_timer_unless_that_has_waited_four_hours_more(self):
        yield self.asked(1, 3 * HOUR_S, TIMERS)
        yield self.asked(2, HOUR_S)
        assert (yield self.next_of([1, 2])) == 2
        yield self.asked(3, 6 * HOUR_S, TIMERS)
        assert (yield self.next_of([1, 2, 3])) == 3

    @defer.inlineCallbacks
    def test_whose_board_is_free_in_that_moment_loses_its_turn_to_nobody_who_comes_later(self):
        yield self.asked(1, HOUR_S)
        yield self.asked(2, HOUR_S, TIMERS)
        assert (yield self.next_of([2], free=[1])) is None
        assert (yield self.next_of([2])) == 2

    @defer.inlineCallbacks
    def test_the_builder_with_the_request_whose_turn_it_is_is_asked_first(self):
        yield self.asked(1, 6 * HOUR_S, TIMERS, builder=3)
        yield self.asked(2, HOUR_S, builder=2)
        yield self.asked(3, HOUR_S, TIMERS, builder=2)
        found = yield self.turns.builders(self.master, list(self.builders.values()))
        assert [builder.name for builder in found] == ["builder 3", "builder 2", "builder 1"]

    @defer.inlineCallbacks
    def test_scheduled_builds_leave_room_for_persons_and_a_board_has_one_build(self):
        nightly, person = (Mock(properties={"scheduler": name}) for name in ("nightly", "measure"))
        for request in (nightly, person):
            request.properties = Mock(getProperty=request.properties.get)
        room = all_of(Room(["builder 1", "builder 2"], ["builder 1", "builder 2", "builder 3"], {"nightly"}, 1))
        assert (yield self.may_begin(room, nightly, person)) == [True, True]
        self.builders[3].building = [Mock(requests=[nightly])]
        assert (yield self.may_begin(room, nightly, person)) == [False, True]
        self.builders[2].building = [Mock(requests=[person])]
        assert (yield self.may_begin(room, nightly, person)) == [False, False]

    def may_begin(self, room, *requests):
        return defer.gatherResults([room(self.builders[1], None, request) for request in requests])

    @defer.inlineCallbacks
    def test_nights_that_went_by_are_one_request_and_nothing_else_is_skipped(self):
        night = {"priority": TIMERS, "scheduler": "nightly", "schedule": "nightly"}
        yield self.asked(1, 50 * HOUR_S, **night)
        yield self.asked(2, 49 * HOUR_S, **{**night, "scheduler": "now-nightly"})
        yield self.asked(3, 48 * HOUR_S, TIMERS, scheduler="new", schedule="new", provision="11.02.yaml")
        yield self.asked(4, 47 * HOUR_S, TIMERS, scheduler="new", schedule="new", provision="11.02.yaml")
        yield self.asked(5, 46 * HOUR_S, **{**night, "scheduler": "weekly"})
        yield self.asked(6, 45 * HOUR_S)
        yield self.asked(7, 44 * HOUR_S)
        yield self.asked(8, 26 * HOUR_S, **{**night, "priority": PERSONS})
        yield self.asked(9, 25 * HOUR_S, **night)
        yield self.master.db.insert_test_data(
            [
                fakedb.Build(
                    id=1,
                    number=1,
                    buildrequestid=9,
                    builderid=1,
                    workerid=1,
                    masterid=fakedb.FakeDBConnector.MASTER_ID,
                )
            ]
        )
        for number in (2, 4, 5, 7, 8, 9):
            found = yield BuildRequestCollapser(self.master, [number]).collapse()
            assert found == ([1] if number == 9 else []), number
        yield self.asked(10, 1 * HOUR_S, **night)
        assert (yield BuildRequestCollapser(self.master, [10]).collapse()) == [], "the last one was begun before"
        skipped = yield self.master.db.buildrequests.getBuildRequests(complete=True)
        assert [(each.buildrequestid, each.results) for each in skipped] == [(1, SKIPPED)]

    @defer.inlineCallbacks
    def test_a_release_that_was_taken_is_asked_for_once(self):
        folder = self.mktemp()
        released = Released(name="new", builderNames=["boot on b1"])
        state = {"known": []}
        released.getState = lambda name, *_default: defer.succeed(state[name])
        released.setState = lambda name, value: defer.succeed(state.update({name: value}))
        released._wrong, released._said = {}, {}
        yield self.master.db.insert_test_data(
            [
                fakedb.Buildset(id=1, external_idstring="new: 11.02.yaml"),
                fakedb.Buildset(id=2, external_idstring="other"),
            ]
        )
        released.folder = Path(folder)
        released.folder.mkdir()
        (released.folder / "11.02.yaml").touch()
        asked = []
        get = self.master.data.get

        def counted(path, *args, **kwargs):
            asked.append(path)
            return get(path, *args, **kwargs)

        self.patch(Released, "master", SimpleNamespace(data=SimpleNamespace(get=counted)))
        for _ in range(2):
            yield released._look()
        assert (state["known"], asked) == (["11.02.yaml"], [("buildsets",)])


class Told(unittest.TestCase):
    """What is told of a build whose numbers were judged, or not."""

    def told(self, *lines, results=SUCCESS):
        said = Said()
        for line in lines:
            said.outLineReceived(line)
        found = {"verdicts": said.verdicts, "unjudged": said.unjudged, "lab": said.lab}
        properties = {name: (value, "boardlab") for name, value in found.items()}
        buildset = {"sourcestamps": [{"revision": "c0ffee"}]}
        build = {"results": results, "properties": properties, "buildset": buildset, "url": "http://x/"}
        return build, described({"build": build}), document({"build": build})["outcome"]

    def state(self, build):
        """The result that GitHub and GitLab are told."""
        told = []
        reporter = type(
            "Reporter", (Sure, type("Base", (), {"sendMessage": lambda _self, reports: told.extend(reports)})), {}
        )
        reporter().sendMessage([{"builds": [build]}])
        return told[0]["builds"][0]["results"]

    def test_what_the_judge_had_is_said_to_be_no_worse(self):
        build, line, outcome = self.told("run 7: none of 12 numbers has moved for sure (lab judge show 7)")
        assert (line, outcome) == ("measured, no number is worse for sure", "measured")
        assert self.state(build) == SUCCESS

    def test_what_nobody_judged_is_no_success(self):
        why = "the reference board r1 was not checked yet, and nothing says that the lab works"
        judged = "run 7: none of 12 numbers has moved for sure (lab judge show 7)"
        for lines, said in (
            ((f"not judged: {why}",), why),
            ((judged, f"not judged: {why}"), why),
            ((), "nobody asked"),
        ):
            build, line, outcome = self.told("job j1: boot on b1, results in it", *lines)
            assert line.startswith(f"measured, not judged: {said}"), line
            assert (outcome, self.state(build)) == ("unjudged", EXCEPTION)

    def test_worse_is_worse_also_where_another_suite_was_not_judged(self):
        build, line, outcome = self.told("verdict: boot.time: regression", "not judged: it", results=WARNINGS)
        assert (line, outcome) == ("worse: boot.time: regression", "worse")
        assert self.state(build) != SUCCESS

    def test_what_failed_by_the_lab_alone_is_no_failure_of_a_commit(self):
        fault = "failed by the lab: pdu_timeout (lab jobs show j1)"
        build, line, outcome = self.told(fault, results=FAILURE)
        assert (line, outcome, self.state(build)) == (fault, "broken", EXCEPTION)
        for lines in ((), (fault, "verdict: boot.time: regression")):
            build, line, outcome = self.told(*lines, results=FAILURE)
            assert (outcome, self.state(build)) == ("failed", FAILURE), lines
