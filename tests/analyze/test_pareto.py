from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.pareto import Candidate, front, surely_beaten
from attnbench.analyze.statistics import Estimate, Interval, Spread


def at(cost: float, loss: float, label: str = "m", reach: float = 0.0) -> Candidate:
    def around(value: float) -> Estimate:
        return Estimate(value, Interval(value - reach, value + reach, Spread.INTERVAL)) if reach else Estimate.exact(value)

    return Candidate(label, around(cost), around(loss))


def test_the_front_goes_from_the_cheapest_to_the_best() -> None:
    cheap, middle, best, beaten = at(1, 0.9), at(2, 0.5), at(9, 0.0), at(3, 0.6)
    assert front([best, beaten, cheap, middle]) == [cheap, middle, best]


def test_what_is_as_good_and_dearer_is_beaten() -> None:
    assert front([at(1, 0.5), at(2, 0.5)]) == [at(1, 0.5)]
    assert front([at(1, 0.5), at(1, 0.4)]) == [at(1, 0.4)]


def test_two_alike_are_both_on_the_front() -> None:
    assert [candidate.label for candidate in front([at(1, 0.5, "a"), at(1, 0.5, "b")])] == ["a", "b"]


def test_nothing_has_an_empty_front() -> None:
    assert front([]) == []


figures = st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0])


@settings(deadline=None)
@given(st.lists(st.builds(at, figures, figures), max_size=12))
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(candidates: list[Candidate]) -> None:
    def beats(a: Candidate, b: Candidate) -> bool:
        x, y = ((each.cost.value, each.loss.value) for each in (a, b))
        return x[0] <= y[0] and x[1] <= y[1] and x != y

    best = front(candidates)
    for candidate in candidates:
        assert any(beats(other, candidate) for other in candidates) is (candidate not in best)


def test_beyond_chance_an_interval_must_lie_apart_from_the_other() -> None:
    near, far, best = at(2, 0.5, reach=0.2), at(4, 0.9, reach=0.2), at(1.9, 0.45, reach=0.2)
    assert not surely_beaten(near, [near, best])
    assert surely_beaten(far, [near, far, best])


def test_exact_figures_need_no_interval() -> None:
    assert surely_beaten(at(2, 0.0), [at(1, 0.0)])
    assert not surely_beaten(at(1, 0.0), [at(1, 0.0, "other")])
