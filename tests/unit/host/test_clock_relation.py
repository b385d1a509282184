"""Another host's clock: its bound covers the truth, whatever the network does, and what cannot be related is said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabTransientError
from lab.host.clockrelation import ClockReading, ClockRelation, RelatedClock

S = 10**9
HOUR_S = 3600


class Crystals:
    """Two clocks and a network: the other one is `offset_ns` ahead at 0 and faster by `rate`."""

    def __init__(self, offset_ns: int, rate: float, seed: int = 0) -> None:
        self.offset_ns, self.rate = offset_ns, rate
        self._chance = random.Random(seed)

    def ahead_ns(self, t_ns: float) -> float:
        return self.offset_ns + self.rate * t_ns

    def reading(self, t_ns: int, out_ns: int, back_ns: int) -> ClockReading:
        """A question at `t_ns`, whose way there and back takes so long."""
        there_at = t_ns + out_ns
        return ClockReading(t_ns, round(there_at + self.ahead_ns(there_at)), there_at + back_ns, "line")

    def lossy(self, t_ns: int, delay_ns: int) -> ClockReading:
        """Over a network with this delay each way, that loses one in a hundred, which comes 200 ms later."""

        def way() -> int:
            return delay_ns + self._chance.randrange(300_000) + (200_000_000 if self._chance.random() < 0.01 else 0)

        return self.reading(t_ns, way(), way())


@given(
    offset_ns=st.integers(-(10**17), 10**17),
    rate=st.floats(-200e-6, 200e-6),
    ways=st.lists(
        st.tuples(st.integers(1, 30 * S), st.integers(0, S // 5), st.integers(0, S // 5)), min_size=1, max_size=80
    ),
    later_ns=st.integers(-10 * S, 60 * S),
)
def test_the_bound_covers_the_truth_however_uneven_the_ways_are(
    offset_ns: int, rate: float, ways: list[tuple[int, int, int]], later_ns: int
) -> None:
    crystals, relation = Crystals(offset_ns, rate), ClockRelation("lab-2")
    t_ns = 1000 * S
    for pause_ns, out_ns, back_ns in ways:
        t_ns += pause_ns
        relation.add(crystals.reading(t_ns, out_ns, back_ns))
    found = relation.at(t_ns + later_ns)
    assert abs(found.ns - crystals.ahead_ns(t_ns + later_ns)) <= found.bound_ns + 100  # of floats near 10^17
    slow, bound = relation.rate()
    assert abs(slow - rate) <= bound + 1e-9


@pytest.mark.parametrize("delay_ms", [0, 20, 100])
def test_a_longer_look_narrows_the_rate_and_the_bound_stays_half_a_round_trip(delay_ms: int) -> None:
    crystals, relation = Crystals(7 * S, 40e-6, seed=delay_ms), ClockRelation("lab-2")
    for n in range(HOUR_S // 5):
        relation.add(crystals.lossy(n * 5 * S, delay_ms * 1_000_000))
    end_ns = HOUR_S * S
    found = relation.at(end_ns)
    assert abs(found.ns - crystals.ahead_ns(end_ns)) <= found.bound_ns
    assert found.bound_ns <= 1.1 * (delay_ms * 1_000_000 + 150_000)
    rate, rate_bound = relation.rate()
    assert abs(rate - 40e-6) <= rate_bound <= 3e-6 + 2 * delay_ms * 1e-3 / HOUR_S
    assert len(relation.readings) < 64
    document = relation.document()
    assert document["bound_ns"] <= 1.1 * (delay_ms * 1_000_000 + 150_000)
    assert document["round_trip_ns"] == min(reading.round_trip_ns for reading in relation.readings)


def test_a_clock_that_jumped_is_not_related_until_it_is_forgotten() -> None:
    relation = ClockRelation("lab-2")
    for n in range(10):
        relation.add(Crystals(0, 0).reading(n * 20 * S, 1000, 1000))
    for n in range(10, 12):
        relation.add(Crystals(3 * S, 0).reading(n * 20 * S, 1000, 1000))
    with pytest.raises(LabTransientError, match=r"lab-2.*jumped") as caught:
        relation.at(240 * S)
    assert caught.value.failure == "clock_unrelated"
    relation.forget()
    relation.add(Crystals(3 * S, 0).reading(250 * S, 1000, 1000))
    assert relation.at(250 * S).ns == 3 * S


@pytest.mark.parametrize("round_trip_ns", [1000, 100_000], ids=["shorter", "longer"])
def test_a_jump_between_two_readings_close_to_each_other_is_not_lost(round_trip_ns: int) -> None:
    relation = ClockRelation("lab-2")
    relation.add(Crystals(0, 0).reading(100 * S, 10_000, 10_000))
    relation.add(Crystals(S // 10, 0).reading(105 * S, round_trip_ns // 2, round_trip_ns // 2))
    with pytest.raises(LabTransientError, match=r"clocks has jumped") as caught:
        relation.at(105 * S)
    assert caught.value.failure == "clock_unrelated"


def test_a_host_that_was_booted_again_has_another_clock() -> None:
    relation = ClockRelation("lab-2")
    relation.add(ClockReading(0, 5, 10, "one boot"))
    with pytest.raises(LabTransientError, match="booted again") as caught:
        relation.add(ClockReading(20, 25, 30, "another boot"))
    assert caught.value.failure == "clock_unrelated"


def test_answers_that_take_too_long_relate_nothing() -> None:
    relation = ClockRelation("lab-2")
    with pytest.raises(LabTransientError, match="gave no answer"):
        relation.at(0)
    relation.add(Crystals(0, 0).reading(0, S, S))
    with pytest.raises(LabTransientError, match="take too long"):
        relation.at(0)


def test_the_same_clock_needs_no_reading() -> None:
    relation = ClockRelation("here", same=True)
    assert (relation.at(123).ns, relation.at(123).bound_ns) == (0, 0)
    assert relation.document() == {"host": "here", "same_clock": True}


class Fixed:
    name = "fixed"
    t_ns = 100 * S

    def now_ns(self) -> int:
        return self.t_ns


def test_whoever_waits_by_another_hosts_clock_goes_on_when_it_is_lost_and_whoever_measures_does_not() -> None:
    relation, here = ClockRelation("lab-2"), Fixed()
    clock = RelatedClock(relation, here)
    relation.add(Crystals(5 * S, 0).reading(100 * S - 2000, 1000, 1000))
    assert abs(clock.now_ns() - 105 * S) <= clock.bound_ns() < 2_000_000
    relation.forget()
    assert abs(clock.now_ns() - 105 * S) < 2_000_000
    with pytest.raises(LabTransientError):
        clock.bound_ns()
