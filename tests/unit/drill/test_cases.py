"""Which kills there are, and that the first ten say something about each process."""

import pytest

from workers.drill.cases import POINTS, Moment, NoSuchCase, Victim, all_cases, chosen


def test_every_victim_meets_every_moment_and_every_point_is_passed() -> None:
    cases = all_cases()
    assert {(case.victim, case.moment) for case in cases if case.point is None} == {
        (victim, moment) for victim in Victim for moment in Moment
    }
    assert [case.point for case in cases if case.point] == list(POINTS)
    assert len({case.name for case in cases}) == len(cases) == len(Victim) * len(Moment) + len(POINTS)


def test_the_first_ten_have_all_victims_and_all_moments() -> None:
    first = chosen("10")
    assert len(first) == 10
    assert {case.victim for case in first} == set(Victim)
    assert {case.moment for case in first} == set(Moment)


def test_cases_are_chosen_by_name() -> None:
    names = [case.name for case in chosen("api@running, point:settle.committed")]
    assert names == ["api@running", "point:settle.committed"]
    assert len(chosen("all")) == len(all_cases())


def test_a_name_that_is_none_lists_those_that_are() -> None:
    with pytest.raises(NoSuchCase, match="api@running"):
        chosen("api@lunch")
