"""Patterns and shapes for hypothesis to draw, so small that a short sequence has many of their parts."""

from importlib import import_module
from typing import Any

from hypothesis import strategies as st

factorised: Any = import_module("attnbench_impls.sparse.patterns.factorised")
neighbours: Any = import_module("attnbench_impls.sparse.patterns.neighbours")
Shape: Any = import_module("attnbench_impls.sparse.patterns.pattern").Shape
MODES = st.sampled_from(["merged", "per_head", "by_layer"])
CONVENTIONS = st.sampled_from(["paper", "code"])


@st.composite
def fixed(draw: Any) -> Any:
    stride = draw(st.integers(1, 9))
    return factorised.Fixed(stride, draw(MODES), draw(st.integers(0, 3)), draw(st.integers(1, stride)), draw(st.booleans()))


PATTERNS = st.one_of(
    st.builds(factorised.Strided, st.integers(1, 9), MODES, st.integers(0, 3), CONVENTIONS),
    fixed(),
    st.builds(neighbours.Local, st.integers(1, 40), CONVENTIONS),
    st.builds(neighbours.Atrous, st.integers(1, 40), st.none() | st.integers(0, 5)),
    st.builds(neighbours.Window, st.integers(1, 40)),
    st.builds(neighbours.Longformer, st.integers(1, 12), st.integers(1, 5), st.integers(0, 6), st.none() | st.integers(0, 4)),
)
