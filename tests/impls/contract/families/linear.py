"""Linear attention: each feature map by each algorithm, chunks of any length."""

import math

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn

Limit = tuple[Params, str | None]
MAPS: tuple[Params, ...] = (
    {},
    {"feature_map": "favor", "features": 20},
    *({"feature_map": name} for name in ("quadratic", "relu", "squared_relu", "cosine", "taylor")),
)
EFFICIENT: Params = {"feature_map": "efficient"}


def causal(more: Params) -> Params:
    return {"causal": True, **more}


def on_a_gpu(changes: Params) -> Params:
    return {"causal": True, "dtype": "bfloat16", "device": "cuda", **changes}


CUTS = tuple(cut("linear.eager.segments", ROWS=rows, HEADS=heads) for rows in (1, 24) for heads in (1, 3))
NUMBERS = ({"eps": -1e-6}, {"eps": "small"})
FLA_LIMITS = ((on_a_gpu({"dtype": "float32", "matmul_precision": "high"}), None), (on_a_gpu({"D": 63}), None))
FLA_CHUNKS: Limit = (on_a_gpu({"dtype": "float32"}), "set matmul_precision: high")

METHODS = {
    "linear.full": Method(
        grows=4,
        variants=(*MAPS, EFFICIENT),
        cuts=CUTS,
        limits=(({"kv_heads": 2, "M": 16}, None), (causal({"workload": "decode"}), "does not decode")),
        mistakes=(
            *(*NUMBERS, {"eps": math.nan}, {"eps": math.inf}, {"feature_map": "gelu"}),
            {"features": 8, "feature_map": "relu"},
            *({"features": count, "feature_map": "favor"} for count in (0, 2.5, True)),
        ),
    ),
    "linear.chunked": Method(
        grows=4,
        sums=True,
        variants=({"chunk": 16}, {"feature_map": "quadratic", "chunk": 7}, *MAPS, *({"chunk": n} for n in (1, 64, 300))),
        any_params=drawn(chunk=st.integers(1, 130), feature_map=st.sampled_from(["elu_plus_one", "favor", "quadratic"])),
        cuts=CUTS,
        limits=((causal({"M": 16, "N": 77}), None), (causal(EFFICIENT), "linear.recurrent does it")),
        mistakes=({"chunk": 0}, {"chunk": 6.4}, {"chunk": "64"}, *NUMBERS),
    ),
    **dict.fromkeys(
        ("linear.recurrent", "linear.naive_cumsum"), Method(grows=4, sums=True, variants=(*MAPS, EFFICIENT), mistakes=NUMBERS)
    ),
    # of more segments the backward sums up a larger share again
    "linear.based": Method(grows=4.05, sums=True, variants=({}, {"chunk": 16})),
    "linear.cuda": Method(
        grows=4,
        sums=True,
        variants=tuple({"feature_map": name} for name in ("elu_plus_one", "relu", "squared_relu")),
        limits=((causal({"device": "cuda", "padding": 0.5}), None),),
        mistakes=(*NUMBERS, {"feature_map": "cosine"}),
    ),
    "linear.triton": Method(
        # longer sequences are cut into longer segments
        grows=4.05,
        sums=True,
        variants=tuple({"feature_map": name} for name in ("elu_plus_one", "relu", "squared_relu")),
        limits=((on_a_gpu({"N": 1}), None), (on_a_gpu({"dtype": "float16", "D": 128, "M": 1, "padding": 0.5}), None)),
        mistakes=(*NUMBERS, {"feature_map": "exp"}, {"feature_map": "cosine"}),
    ),
    "linear.fast_transformers": Method(
        grows=4,
        # its causal form is float32 only
        off_by=1e-5,
        steps_alike=True,
        variants=({}, {"eps": 0.5}),
        limits=(
            ({"dtype": "float64"}, None),
            (causal({}), None),
            (causal({"dtype": "float64"}), "float32 only"),
            ({"dtype": "bfloat16"}, "its products then refuse"),
        ),
        mistakes=({"eps": -1.0},),
    ),
    "linear.performer_pytorch": Method(grows=4, variants=({"features": 19}, {}), mistakes=({"features": 0}, {"features": 2.5})),
    "linear.fla_chunk": Method(
        grows=4,
        limits=(*FLA_LIMITS, FLA_CHUNKS, (on_a_gpu({"D": 63, "workload": "forward_backward"}), "even widths")),
        mistakes=({"feature_map": "cosine"},),
    ),
    "linear.fla_fused_chunk": Method(grows=4, limits=(*FLA_LIMITS, FLA_CHUNKS), mistakes=({"feature_map": "cosine"},)),
    "linear.fla_recurrent": Method(
        grows=4, limits=(*FLA_LIMITS, (on_a_gpu({"dtype": "float32", "D": 63}), None)), mistakes=({"feature_map": "cosine"},)
    ),
    "linear.based_fla": Method(
        variants=({}, {"form": "fused_chunk"}),
        limits=(
            (on_a_gpu({"D": 16, "form": "fused_chunk"}), None),
            (on_a_gpu({"D": 128, "form": "parallel"}), None),
            (on_a_gpu({"D": 300, "form": "colour"}), None),
            (on_a_gpu({"D": 160}), "D up to 128, not D=160"),
            (on_a_gpu({"D": 32, "form": "fused_chunk"}), "D up to 16, not D=32"),
        ),
        mistakes=({"form": "x"},),
    ),
}
