"""Sparse patterns in every form, the largest scores, and the window of a package."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn

# strides, windows and blocks that end within, at and beyond the lengths that are tried
PATTERNS: dict[str, tuple[Params, ...]] = {
    "strided": (
        {"stride": 5},
        {"mode": "per_head", "convention": "code"},
        *({"mode": "by_layer", "layer": layer, "stride": 7} for layer in (1, 0)),
        *({"mode": mode, "convention": c} for mode, c in (("per_head", "paper"), ("merged", "paper"), ("merged", "code"))),
        {},
    ),
    "fixed": (
        {},
        {"mode": "per_head", "distinct": False, "stride": 8, "c": 2},
        {"mode": "by_layer", "layer": 1, "stride": 12, "c": 5},
        *({"mode": mode, "c": 1} for mode in ("merged", "per_head", "by_layer")),
        {"distinct": False, "c": 1},
    ),
    "local": ({}, {"stride": 20}, {"stride": 6, "convention": "code"}),
    "atrous": ({}, {"reach": 2}, {"stride": 4, "reach": 0}),
    "window": ({"window": 30}, {"window": 1}),
    "longformer": (
        {"window": 8, "dilation": 3, "globals": 2, "dilated_heads": 2},
        {"window": 12, "dilation": 5, "globals": 7},
        {"window": 5, "globals": 0},
    ),
}
CAUSAL: Params = {"causal": True}
MISTAKES: dict[str, tuple[Params, ...]] = {
    "strided": ({"stride": 0}, {"stride": True}, {"mode": "both", "stride": 4}, {"layer": -1}, {"convention": "x"}),
    "fixed": ({"stride": 0}, {"distinct": 1}),
    "window": ({"window": 0}, {"window": 1 << 31}),
    "longformer": ({"globals": -1},),
}
ON_CUDA: Params = {"device": "cuda"}

METHODS = {
    **{
        f"sparse.{name}": Method(
            variants=PATTERNS[name],
            # sqrt(N) keys a query where patterns are factorised
            grows=9,
            mistakes=MISTAKES.get(name, ()),
        )
        for name in PATTERNS
    },
    **{
        f"sparse.{name}_masked": Method(
            variants=PATTERNS[name],
            limits=(({"padding": 0.5, **CAUSAL}, None), ({"padding": 0.5, **CAUSAL, "workload": "decode"}, "without padding")),
        )
        for name in PATTERNS
    },
    **{
        f"sparse.{name}_triton": Method(
            variants=PATTERNS[name],
            limits=(
                ({**ON_CUDA, "N": 1, **CAUSAL}, None),
                ({**ON_CUDA, "dtype": "float16", "D": 128, "M": 1, "kv_heads": 2}, None),
            ),
        )
        for name in PATTERNS
    },
    **{
        f"sparse.{name}_flex": Method(
            limits=(
                ({"dtype": "bfloat16", "D": 8}, None),
                ({"workload": "forward_backward"}, "no backward on a CPU"),
                ({**ON_CUDA, "workload": "forward_backward"}, None),
                ({**ON_CUDA, "D": 8}, "widths from 16: D=8"),
            )
        )
        for name in PATTERNS
    },
    "sparse.window_sinks": Method(
        variants=PATTERNS["window"], any_params=drawn(window=st.integers(1, 50)), grows=9, mistakes=({"window": 0},)
    ),
    "sparse.topk": Method(
        variants=({"k": 3}, {"k": 1}, {"k": 20}, {}),
        any_params=drawn(k=st.integers(1, 50)),
        cuts=(
            cut("sparse.chosen.selection", SCORES=1) | cut("sparse.chosen.kept_keys", SCORES=1),
            cut("sparse.chosen.selection", SCORES=100),
        ),
        limits=(({"N": 65, **CAUSAL, "workload": "decode"}, None),),
        mistakes=({"k": 0},),
    ),
    "sparse.qsa": Method(
        variants=({"k": 6, "block": 3}, {"k": 1, "block": 1}, {"k": 40, "block": 8}, {}),
        any_params=st.builds(lambda m, c: {"k": m * c, "block": m}, st.integers(1, 9), st.integers(1, 6)),
        cuts=(cut("partial.index", SCORES=1) | cut("sparse.chosen.kept_keys", SCORES=1), cut("partial.index", QUERIES=7)),
        limits=(({**CAUSAL, "kv_heads": 2, "M": 16}, None),),
        mistakes=({"k": 0}, {"k": 10, "block": 4}),
    ),
    "sparse.dsa": Method(
        variants=({"k": 3}, {"k": 1}, {"k": 20}, {}),
        any_params=drawn(k=st.integers(1, 50)),
        cuts=(
            cut("partial.index", SCORES=1, QUERIES=4) | cut("sparse.chosen.kept_keys", SCORES=1),
            cut("partial.index", QUERIES=7),
        ),
        limits=(({**CAUSAL, "kv_heads": 2, "M": 16}, None),),
        mistakes=({"k": 0},),
    ),
    "sparse.local_attention": Method(
        variants=({"window": 1}, {"window": 7}, {"window": 64}),
        any_params=drawn(window=st.integers(1, 20)),
        limits=(({"N": 65, **CAUSAL}, None),),
        mistakes=({"window": 0},),
    ),
}
