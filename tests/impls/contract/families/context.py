"""A memory of earlier segments, and spans that each head learns: both much shorter than the lengths that are tried."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, cut, drawn, unfused

METHODS = {
    "context.transformer_xl": Method(
        grows=4.2,
        steps_alike=True,
        variants=(
            {"segment": 16},
            *({"segment": segment, "memory": memory} for segment, memory in ((7, 0), (16, 40), (8, 20), (16, 5), (1, 4))),
            {"segment": 64},
        ),
        any_params=drawn(segment=st.integers(1, 45), memory=st.integers(0, 50)),
        cuts=(
            *(cut("context.eager.relative", SCORES=scores) for scores in (1, 16 * 32 * 2, 16 * 32 * 5)),
            unfused("partial.softmax", "context.eager.relative"),
        ),
        limits=(({}, "set causal: true"),),
        mistakes=({"segment": 0}, {"memory": -1}, {"segment": 2.0}),
    ),
    "context.adaptive_span": Method(
        grows=4.2,
        steps_alike=True,
        variants=(
            *({"span": span, "ramp": ramp} for span, ramp in ((20, 8), (61.9, 0.4))),
            {"span": 20, "ramp": 8, "sees_itself": True},
            {"span": 300, "ramp": 32},
            *({"span": 12, "ramp": ramp, "sees_itself": True} for ramp in (1.0, 1000.0)),
        ),
        any_params=drawn(span=st.floats(0.1, 70), ramp=st.floats(0.1, 40), sees_itself=st.booleans()),
        cuts=(
            *(
                cut("context.eager.sliding_tiles", _TOGETHER=together, _ROWS=rows, _HEAD=7)
                for together, rows in ((1, 1), (64, 2), (100, 1))
            ),
            unfused("partial.softmax", "context.eager.sliding"),
        ),
        limits=(({}, "set causal: true"),),
        mistakes=({"span": 0}, {"ramp": -1.0}, {"ramp": float("inf")}, {"sees_itself": 1}),
    ),
}
