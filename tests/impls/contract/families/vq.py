"""Attention over quantised keys: blocks and codebooks so small that a few hundred tokens fill many."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn, unfused

SMALL: Params = {"codes": 6, "block": 8}
LARGE: Params = {"codes": 96, "block": 128}
GPU: Params = {"device": "cuda", "B": 1, "H": 8, "N": 4096, "dtype": "bfloat16", "causal": True}
OPTIONS: tuple[Params, ...] = ({"codes": 0}, {"codes": 2.5}, {"tau": 0.0}, {"tau": "big"}, {"normalise": 1})
CUTS = (unfused("partial.softmax", "vq.eager.block_attention") | cut("vq.eager.block_attention", ROOM=1, TOKENS=1, TILE=1),)

METHODS = {
    "vq.blockwise": Method(
        grows=4.5,
        variants=(
            SMALL,
            {**SMALL, "bias": "relative", "reduction": "scan"},
            {**SMALL, "gradient_through_table": False, "tau": 1.5, "normalise": False},
            *({**SMALL, "bias": bias, "reduction": "matmul"} for bias in ("none", "relative")),
            {**SMALL, "bias": "none", "reduction": "scan"},
            {**SMALL, "bias": "relative"},
            {"codes": 8, "block": 16},
            {"codes": 6, "block": 4},
            {"codes": 6, "block": 50},
        ),
        any_params=drawn(
            block=st.integers(1, 80), codes=st.integers(1, 40), reduction=st.sampled_from(["serial", "matmul", "scan"])
        ),
        cuts=CUTS,
        limits=(({"bias": "relative"}, "knows no positions"), ({"bias": "relative", "causal": True}, None)),
        mistakes=(*OPTIONS, {"block": True}, {"bias": "rotary"}, {"reduction": "sum"}, {"gradient_through_table": "no"}),
    ),
    "vq.gau": Method(
        variants=(SMALL, {**SMALL, "bias": "relative"}, {**SMALL, "gradient_through_table": False}, {"codes": 6, "block": 4}),
        cuts=CUTS,
    ),
    "vq.quantised": Method(variants=({"codes": 6}, {"codes": 20, "normalise": False, "tau": 1.5}), mistakes=OPTIONS),
    "vq.triton": Method(
        grows=4.5,
        variants=(LARGE, {**LARGE, "gradient_through_table": False}, {"codes": 1, "block": 7}),
        limits=(
            *((shape, None) for shape in (GPU, {**GPU, "causal": False}, {**GPU, "N": 1, "dtype": "float32"})),
            ({**GPU, "dtype": "float16", "D": 256, "M": 1, "codes": 7, "block": 3, "gradient_through_table": False}, None),
            ({**GPU, "bias": "relative"}, "no bias; vq.blockwise does"),
            ({**GPU, "reduction": "scan"}, "leave reduction out"),
        ),
        mistakes=({"block": 0}, {"codes": 0}),
    ),
}
