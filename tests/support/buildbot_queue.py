"""Tests for Buildbot's own environment (`python -m twisted.trial`): what is skipped, what is taken, and what is told."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from unittest.mock import Mock

import boardlab
from boardlab import (
    JobOutput,
    Nights,
    Released,
    VerdictStatus,
    alert_of,
    described,
    document,
    release_files,
    same_night,
)
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
    """Of a master with a database and a builder."""

    suppress = ((("ignore",), {"category": DeprecationWarning}),)  # of what Buildbot uses

    @defer.inlineCallbacks
    def setUp(self):
        self.setup_test_reactor()
        self.master = yield fakemaster.make_master(self, wantData=True, wantDb=True)
        self.master.botmaster.maybeStartBuildsForBuilder = Mock()
        self.builders = {1: self.builder(1)}
        self.master.botmaster.builders = {builder.name: builder for builder in self.builders.values()}
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
        found.getCollapseRequestsFn.return_value = same_night({"nightly", "weekly"})
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
    def test_schedules_of_one_time_have_a_request_each(self):
        orders = [
            ("builder 1", {"schedule": "night-b1", "board": "b1"}),
            ("builder 1", {"schedule": "night-b2", "board": "b2"}),
        ]
        nights = Nights("daily hour 2", builderNames=["builder 1"], orders=orders, hour=2, minute=0, priority=TIMERS)
        yield nights.setServiceParent(self.master)
        yield nights.configureService()
        yield self.master.startService()
        yield nights.activate()
        self.reactor.advance(24 * HOUR_S)
        found = yield self.master.db.buildsets.getBuildsets()
        asked = []
        for each in found:
            its = yield self.master.db.buildsets.getBuildsetProperties(each.bsid)
            asked.append((its["scheduler"][0], its["schedule"][0], its["board"][0]))
        assert asked == [("daily hour 2", about["schedule"], about["board"]) for _, about in orders]
        yield nights.deactivate()
        yield self.master.stopService()

    @defer.inlineCallbacks
    def test_a_release_that_was_taken_is_asked_for_once(self):
        """Also by a master that was killed before it knew the file."""
        yield self.master.db.insert_test_data([fakedb.Buildset(id=1, external_idstring="new: 11.02.yaml")])
        folder = Path(self.mktemp())
        told = {"github": None, "gitlab": None}
        farm = {"program": "echo", "directory": ".", "environ": {}, "told": told}
        released = Released(name="new", builderNames=["boot on b1"], folder=str(folder), env="e.yaml", farm=farm)
        released.folder, released.env, released.farm, released.priority = folder, "e.yaml", farm, 5
        state, asked, taken = {"known": []}, [], []
        released.getState = lambda name, *_default: defer.succeed(list(state[name]))
        released.setState = lambda name, value: defer.succeed(state.update({name: value}))
        released.addBuildsetForSourceStampsWithDefaults = lambda **order: taken.append(order["external_idstring"])
        self.patch(Released, "master", self.master)

        def checked(_reactor, command, **_options):
            asked.append(command[-1])
            return defer.succeed((0, b'[{"problems": [], "fits": true}]', b""))

        self.patch(boardlab.runprocess, "run_process", checked)
        self.patch(boardlab, "commit_of", lambda _path: defer.succeed(None))
        folder.mkdir()
        for name in ("11.02", "11.03"):
            (folder / f"{name}.yaml").touch()
        for _ in range(2):
            yield released.look()
        assert state["known"] == ["11.02.yaml", "11.03.yaml"]
        assert taken == ["new: 11.03.yaml"]
        assert len(asked) == 2, asked

    def test_what_an_editor_leaves_beside_a_release_is_no_release(self):
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / ".#11.02.yaml").symlink_to("lena@desk.4711")
        (folder / "gone.yaml").symlink_to("nothing")
        (folder / ".draft.yaml").write_text("boards: [")
        (folder / "11.02.yaml").touch()
        assert release_files(folder) == [folder / "11.02.yaml"]


class Told(unittest.TestCase):
    """What is told of a build whose numbers were judged, or not."""

    def told(self, *lines, results=SUCCESS):
        said = JobOutput()
        for line in lines:
            said.outLineReceived(line)
        found = {name: getattr(said, name) for name in ("verdicts", "unjudged", "unconfirmed", "lab")}
        properties = {name: (value, "boardlab") for name, value in found.items()}
        buildset = {"sourcestamps": [{"revision": "c0ffee"}]}
        build = {"results": results, "properties": properties, "buildset": buildset, "url": "http://x/"}
        return build, described({"build": build}), document({"build": build})["outcome"]

    def state(self, build):
        """The result that GitHub and GitLab are told."""
        told = []
        reporter = type(
            "Reporter",
            (VerdictStatus, type("Base", (), {"sendMessage": lambda _self, reports: told.extend(reports)})),
            {},
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
            ((), "the judge was not asked"),
        ):
            build, line, outcome = self.told("job j1: boot on b1, results in it", *lines)
            assert line.startswith(f"measured, not judged: {said}"), line
            assert (outcome, self.state(build)) == ("unjudged", EXCEPTION)

    def test_worse_is_worse_also_where_another_suite_was_not_judged(self):
        build, line, outcome = self.told("verdict: boot.time: regression", "not judged: it", results=WARNINGS)
        assert (line, outcome) == ("worse: boot.time: regression", "worse")
        assert self.state(build) != SUCCESS

    def test_an_open_question_is_no_success_and_no_failure(self):
        why = "numbers of run 7 may have moved"
        lines = ("not judged: run 7 has 1 number that may have moved", "verdict: boot.time: improvement")
        build, line, outcome = self.told(*lines, f"not confirmed: {why}", results=WARNINGS)
        assert (line, outcome) == (f"measured, not judged: {why}", "unjudged")
        assert self.state(build) == EXCEPTION

    def test_what_failed_by_the_lab_alone_is_no_failure_of_a_commit(self):
        fault = "failed by the lab: pdu_timeout (lab jobs show j1)"
        build, line, outcome = self.told(fault, results=FAILURE)
        assert (line, outcome, self.state(build)) == (fault, "broken", EXCEPTION)
        for lines in ((), (fault, "verdict: boot.time: regression")):
            build, line, outcome = self.told(*lines, results=FAILURE)
            assert (outcome, self.state(build)) == ("failed", FAILURE), lines

    def test_alertmanager_is_told_of_schedule_board_and_page(self):
        about = {"scheduler": "new", "board": "b1", "suite": "boot"}
        properties = {name: (value, "boardlab") for name, value in about.items()}
        build = {
            "results": EXCEPTION,
            "properties": properties,
            "state_string": "lost 6 times: given up",
            "url": "http://x/7",
        }
        (alert,) = alert_of("https://docs")({"build": build})
        assert alert["labels"] == {
            "alertname": "BoardlabBuildFailed",
            "severity": "ticket",
            "schedule": "new",
            "board": "b1",
        }
        assert alert["annotations"]["summary"] == "boot on b1: a build of new failed"
        assert alert["annotations"]["runbook_url"] == "https://docs/runbooks/#boardlabbuildfailed"
        for text in ("broken, lost 6 times: given up", "http://x/7"):
            assert text in alert["annotations"]["description"], text
        assert alert["endsAt"] > dt.datetime.now(dt.UTC).isoformat()
