"""Pooled keys and values, pooled queries."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params

FACTORS: tuple[Params, ...] = ({}, *({"factor": factor} for factor in (1, 2, 5)))
SIZES = tuple(
    ({"B": 2, "N": 512, **shape}, params)
    for shape, params in (
        ({}, {}),
        ({"N": 2048, "B": 1}, {}),
        ({"N": 515}, {"factor": 3}),
        ({"M": 32, "kv_heads": 2}, {}),
        ({"M": 96}, {"factor": 8}),
        ({"dtype": "float64"}, {}),
    )
)
ANY = st.fixed_dictionaries({"factor": st.integers(1, 50)})
BAD: tuple[Params, ...] = ({"factor": 0}, {"factor": -1}, {"factor": 2.0}, {"factor": True})
CAUSAL: tuple[Params, str | None] = ({"causal": True}, "there is no causal form")

METHODS = {
    "pooling.key_value": Method(
        variants=FACTORS,
        any_params=ANY,
        peaks=(*SIZES, ({"B": 2, "N": 512, "padding": 0.5}, {})),
        limits=(CAUSAL, ({"padding": 0.5}, None)),
        mistakes=BAD,
    ),
    "pooling.funnel": Method(
        variants=FACTORS, any_params=ANY, peaks=SIZES, limits=(CAUSAL, ({"padding": 0.5}, "no key mask")), mistakes=BAD
    ),
}
