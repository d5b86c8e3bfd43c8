"""Pooled keys and values, pooled queries, and tokens chosen by the attention that they get."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, drawn

FACTORS: tuple[Params, ...] = ({}, *({"factor": factor} for factor in (1, 2, 5)))
ANY = drawn(factor=st.integers(1, 50))
BAD: tuple[Params, ...] = ({"factor": 0}, {"factor": -1}, {"factor": 2.0}, {"factor": True})

METHODS = {
    "pooling.key_value": Method(variants=FACTORS, any_params=ANY, limits=(({"padding": 0.5}, None),), mistakes=BAD),
    "pooling.funnel": Method(variants=FACTORS, any_params=ANY, mistakes=BAD),
    "pooling.power_bert": Method(
        variants=({}, *({"keep": keep} for keep in (0.1, 0.3, 1))),
        any_params=drawn(keep=st.floats(0, 1, exclude_min=True)),
        mistakes=({"keep": 0}, {"keep": -0.5}, {"keep": 1.5}, {"keep": True}, {"keep": "half"}),
    ),
}
