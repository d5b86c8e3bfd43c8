"""A memory of earlier segments, and spans that each head learns: both much shorter than the lengths that are tried."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, unfused

SHAPES: tuple[Params, ...] = ({"H": 2, "B": 2, "M": 32, "N": 700},)
MORE: tuple[Params, ...] = ({"H": 2}, {"H": 2, "N": 1100, "dtype": "float64"})
STEPS: tuple[Params, ...] = ({"B": 16, "H": 2, "N": 80, "M": 32},)
MORE_STEPS: tuple[Params, ...] = ({"B": 16, "H": 2, "N": 90}, {"B": 16, "H": 2, "N": 90, "dtype": "float64"})
SEQ: Params = {"causal": True}
LIMITS: tuple[tuple[Params, str | None], ...] = (
    (SEQ, None),
    ({}, "set causal: true"),
    ({**SEQ, "kv_heads": 2}, "kv_heads must equal H"),
    ({**SEQ, "padding": 0.5}, "no key mask"),
)
XL: tuple[Params, ...] = ({"segment": 128}, {"segment": 64, "memory": 200}, {})
XL_STEPS: tuple[Params, ...] = ({"segment": 32}, {"segment": 16, "memory": 40})
SPAN: tuple[Params, ...] = ({}, {"span": 40, "ramp": 8}, {"span": 40, "ramp": 8, "sees_itself": True})
SPAN_STEPS: tuple[Params, ...] = ({"span": 40, "ramp": 8},)

METHODS = {
    "context.transformer_xl": Method(
        grows=(4.2, 4.2),
        steps_alike=True,
        variants=(
            {"segment": 16},
            {"segment": 16, "memory": 40},
            {"segment": 8, "memory": 20},
            {"segment": 16, "memory": 5},
            {"segment": 7, "memory": 0},
            {"segment": 1, "memory": 4},
            {"segment": 64},
        ),
        any_params=st.fixed_dictionaries({"segment": st.integers(1, 45), "memory": st.integers(0, 50)}),
        cuts=(
            *(cut("context.relative", SCORES=scores) for scores in (1, 16 * 32 * 2, 16 * 32 * 5)),
            unfused("partial.softmax", "context.relative"),
        ),
        peaks=tuple((shape, params) for shape in SHAPES for params in XL),
        slow_peaks=tuple((shape, params) for shape in MORE for params in XL),
        step_peaks=tuple((shape, params) for shape in STEPS for params in XL_STEPS),
        slow_step_peaks=tuple((shape, params) for shape in MORE_STEPS for params in XL_STEPS),
        limits=LIMITS,
        mistakes=({"segment": 0}, {"memory": -1}, {"segment": 2.0}),
    ),
    "context.adaptive_span": Method(
        grows=(4.2, 4.2),
        steps_alike=True,
        variants=(
            {"span": 20, "ramp": 8},
            {"span": 20, "ramp": 8, "sees_itself": True},
            {"span": 61.9, "ramp": 0.4},
            {"span": 300, "ramp": 32},
            *({"span": 12, "ramp": ramp, "sees_itself": True} for ramp in (1.0, 1000.0)),
        ),
        any_params=st.fixed_dictionaries(
            {"span": st.floats(0.1, 70), "ramp": st.floats(0.1, 40), "sees_itself": st.booleans()}
        ),
        cuts=(
            *(
                cut("context.sliding_tiles", _TOGETHER=together, _ROWS=rows, _HEAD=7)
                for together, rows in ((1, 1), (64, 2), (100, 1))
            ),
            unfused("partial.softmax", "context.sliding"),
        ),
        peaks=tuple((shape, params) for shape in SHAPES for params in SPAN),
        slow_peaks=tuple((shape, params) for shape in MORE for params in SPAN),
        step_peaks=tuple((shape, params) for shape in STEPS for params in SPAN_STEPS),
        slow_step_peaks=tuple((shape, params) for shape in MORE_STEPS for params in SPAN_STEPS),
        limits=LIMITS,
        mistakes=({"span": 0}, {"ramp": -1.0}, {"ramp": float("inf")}, {"sees_itself": 1}),
    ),
}
