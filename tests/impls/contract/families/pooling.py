"""Pooled keys and values, pooled queries, and tokens chosen by the attention that they get."""

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
    "pooling.power_bert": Method(
        variants=({}, *({"keep": keep} for keep in (0.1, 0.3, 1))),
        rough=({"keep": 0.1},),  # with few keys, the gradients of torch's kernel are rounded more than those of the definition
        any_params=st.fixed_dictionaries({"keep": st.floats(0, 1, exclude_min=True)}),
        peaks=(
            ({"N": 512, "B": 2}, {}),
            ({"N": 2048}, {}),
            ({"N": 512, "B": 8}, {"keep": 1}),
            ({"N": 512, "B": 2, "M": 96}, {"keep": 0.8}),
            ({"N": 256, "B": 16, "M": 32, "kv_heads": 2}, {"keep": 0.1}),
            ({"N": 512, "B": 2, "dtype": "float64"}, {}),
        ),
        limits=(({"causal": True}, "there is no causal form"), ({"padding": 0.5}, "no key mask")),
        mistakes=({"keep": 0}, {"keep": -0.5}, {"keep": 1.5}, {"keep": True}, {"keep": "half"}),
    ),
}
