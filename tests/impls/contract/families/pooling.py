"""Pooled keys and values, pooled queries."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params

FACTORS: tuple[Params, ...] = ({}, *({"factor": factor} for factor in (1, 2, 5)))
ANY = st.fixed_dictionaries({"factor": st.integers(1, 50)})
BAD: tuple[Params, ...] = ({"factor": 0}, {"factor": -1}, {"factor": 2.0}, {"factor": True})
CAUSAL: tuple[Params, str | None] = ({"causal": True}, "there is no causal form")

METHODS = {
    "pooling.key_value": Method(
        variants=FACTORS,
        any_params=ANY,
        limits=(CAUSAL, ({"padding": 0.5}, None)),
        mistakes=BAD,
    ),
    "pooling.funnel": Method(
        variants=FACTORS, any_params=ANY, limits=(CAUSAL, ({"padding": 0.5}, "no key mask")), mistakes=BAD
    ),
}
