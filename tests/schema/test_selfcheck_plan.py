"""How the processes of a selfcheck are numbered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.schema.cell import Cell
from attnbench.schema.problem import Problem
from attnbench.schema.selfcheck import Place, Selfcheck

A = Cell(method="a", problem=Problem(N=8))
B = Cell(method="b", problem=Problem(N=8))


def plan(verdicts: int = 3, replicates: int = 4) -> Selfcheck:
    return Selfcheck(sides=(A, B), verdicts=verdicts, replicates=replicates)


@given(st.integers(1, 30), st.integers(2, 12))
def test_every_number_is_one_process_and_the_sides_of_a_pair_share_one_of_their_own(verdicts: int, replicates: int) -> None:
    planned = plan(verdicts, replicates)
    places = [planned.place(number) for number in range(planned.processes)]
    assert [planned.number(place) for place in places] == list(range(planned.processes))
    assert set(places) == {Place(v, side, r) for v in range(verdicts) for side in (0, 1) for r in range(replicates)}
    pairs = {(place.verdict, place.replicate): planned.pair(planned.number(place)) for place in places if place.side == 0}
    assert len(set(pairs.values())) == verdicts * replicates
    assert all(planned.pair(planned.number(place)) == pairs[place.verdict, place.replicate] for place in places)
    # numbers of more verdicts begin with those of fewer
    assert [plan(verdicts + 6, replicates).place(number) for number in range(planned.processes)] == places


def test_each_side_has_its_own_cell() -> None:
    planned = plan()
    assert [planned.cell(planned.number(Place(2, side, 3))) for side in (0, 1)] == [A, B]


@pytest.mark.parametrize("wrong", [{"verdicts": 0}, {"replicates": 1}, {"margin": 0.0}, {"injected": -0.1}, {"extra": 1}])
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Selfcheck.model_validate({"sides": (A, B), **wrong})
