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
def test_every_number_is_one_process_and_every_process_has_one_number(verdicts: int, replicates: int) -> None:
    planned = plan(verdicts, replicates)
    places = [planned.place(number) for number in range(planned.processes)]
    assert len(set(places)) == 2 * verdicts * replicates
    assert [planned.number(place) for place in places] == list(range(planned.processes))
    assert {place.verdict for place in places} == set(range(verdicts))
    assert {place.replicate for place in places} == set(range(replicates))


def test_the_two_sides_of_a_pair_share_a_number_that_no_other_pair_has() -> None:
    planned = plan()
    by_pair: dict[int, list[Place]] = {}
    for number in range(planned.processes):
        by_pair.setdefault(planned.pair(number), []).append(planned.place(number))
    assert len(by_pair) == 12
    for a, b in by_pair.values():
        assert (a.verdict, a.replicate, a.side, b.side) == (b.verdict, b.replicate, 0, 1)


def test_numbers_of_more_verdicts_begin_with_those_of_fewer() -> None:
    assert all(plan(3).place(number) == plan(9).place(number) for number in range(plan(3).processes))


def test_each_side_has_its_own_cell() -> None:
    planned = plan()
    assert planned.cell(planned.number(Place(2, 0, 3))) == A
    assert planned.cell(planned.number(Place(2, 1, 3))) == B


@pytest.mark.parametrize("wrong", [{"verdicts": 0}, {"replicates": 1}, {"margin": 0.0}, {"injected": -0.1}, {"extra": 1}])
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Selfcheck.model_validate({"sides": (A, B), **wrong})


def test_a_plan_is_read_back_as_it_was_written() -> None:
    assert Selfcheck.model_validate_json(plan().model_dump_json()) == plan()
