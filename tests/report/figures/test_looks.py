"""Every method has one look in all figures, and no two of one figure look alike."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.drawing.style import Look, looks
from attnbench.suite.expand import expand
from attnbench.suite.load import load

NAMES = [f"{family}.{variant}" for family in ("linear", "lsh", "sparse", "softmax", "vq") for variant in "abcdefghijkl"]
sets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True)


def own(label: str) -> Look:
    """What a method looks like where nobody else is."""
    return looks([label])[label]


@settings(deadline=None)
@given(sets)
def test_a_method_keeps_whatever_nobody_contests(labels: list[str]) -> None:
    found = looks(labels)
    for label in labels:
        others = [own(other) for other in labels if other != label]
        if own(label).color not in {other.color for other in others}:
            assert found[label].color == own(label).color
        if (own(label).marker, own(label).filled) not in {(other.marker, other.filled) for other in others}:
            assert (found[label].marker, found[label].filled) == (own(label).marker, own(label).filled)
        if own(label).line not in {other.line for other in others}:
            assert found[label].line == own(label).line


@settings(deadline=None)
@given(sets, st.randoms())
def test_looks_depend_on_the_set_and_not_on_its_order(labels: list[str], chance: random.Random) -> None:
    mixed = list(labels)
    chance.shuffle(mixed)
    assert looks(mixed) == looks(labels)


@settings(deadline=None)
@given(st.lists(st.text(), unique=True, max_size=60))
def test_whatever_the_names_no_two_are_alike(labels: list[str]) -> None:
    found = looks(labels)
    assert list(found) == labels
    assert len(set(found.values())) == len(labels)


@pytest.mark.parametrize("count", [1, 7, 22, 120, 300])
def test_in_large_sets_no_two_are_alike(count: int) -> None:
    assert len(set(looks(f"m.{i}" for i in range(count)).values())) == count


@settings(deadline=None)
@given(sets)
def test_in_grey_a_marker_tells_any_two_apart(labels: list[str]) -> None:
    found = looks(labels).values()
    assert len({(look.marker, look.filled) for look in found}) == len(labels)


@settings(deadline=None)
@given(st.lists(st.sampled_from([name for name in NAMES if not name.startswith("softmax")]), max_size=6, unique=True))
def test_as_long_as_there_are_colours_enough_each_has_its_own(labels: list[str]) -> None:
    assert len({look.color for look in looks(labels).values()}) == len(labels)


def test_a_name_alone_keeps_its_look_before_a_variant() -> None:
    variants = [f"lsh.reformer(rounds={n})" for n in range(1, 33)]
    assert looks([*variants, "linear.chunked"])["linear.chunked"] == own("linear.chunked")


@pytest.mark.parametrize("suite", ["decode", "linear_time", "peers_linear", "quick", "scaling", "subquadratic"])
def test_what_most_suites_compare_has_one_colour_and_marker_in_all_of_them(suite: str) -> None:
    found = looks(cell.label for cell in expand(load(suite).suite.resolved("cpu")))
    for label in found.keys() & {"softmax.sdpa", "linear.chunked"}:
        assert replace(found[label], line="-") == replace(own(label), line="-")


def test_black_and_grey_are_the_exact_ones() -> None:
    found = looks(NAMES)
    grey = {label for label, look in found.items() if len({look.color[i : i + 2] for i in (1, 3, 5)}) == 1}
    assert grey == {label for label in NAMES if label.startswith("softmax.")}


def test_a_look_is_the_same_on_every_machine_and_in_every_process() -> None:
    known = {
        "softmax.sdpa": Look("#000000", "D", "-", filled=False),
        "linear.chunked": Look("#E69F00", "p", "--", filled=False),
        "lsh.reformer(rounds=4)": Look("#56B4E9", "^", (0, (1, 1)), filled=True),
    }
    assert {label: own(label) for label in known} == known
