"""Softmax attention by every way to compute it."""

from tests.impls.contract.method import Method, Params, cut, unfused

ON_A_GPU: Params = {"dtype": "bfloat16", "device": "cuda"}
SHARED_AND_WIDER: tuple[Params, None] = ({"kv_heads": 2, "M": 16, "causal": True}, None)


def on_a_gpu(*limits: tuple[Params, str | None]) -> tuple[tuple[Params, str | None], ...]:
    """What a fused kernel of torch takes there, of two heads."""
    return tuple(({**ON_A_GPU, "H": 2, **shape}, words) for shape, words in limits)


METHODS = {
    "softmax.naive": Method(limits=(SHARED_AND_WIDER,)),
    "softmax.sdpa": Method(limits=(SHARED_AND_WIDER, ({**ON_A_GPU, "padding": 0.5}, None))),
    "softmax.sdpa_math": Method(limits=on_a_gpu(({"dtype": "float64", "M": 5, "D": 7, "padding": 0.5, "kv_heads": 1}, None))),
    "softmax.sdpa_flash": Method(
        dense=True,
        limits=on_a_gpu(
            ({"D": 256, "M": 256, "kv_heads": 1, "dtype": "float16"}, None),
            ({"dtype": "float32"}, "computes in float16 and bfloat16, not in float32"),
            ({"D": 257}, "widths up to 256: D=257"),
            ({"M": 128}, "M=128 must equal D=64"),
            ({"padding": 0.5}, "on CUDA flash takes no mask, so there can be no padding"),
        ),
    ),
    "softmax.sdpa_efficient": Method(
        limits=on_a_gpu(
            ({"dtype": "float32", "M": 32, "D": 512, "padding": 0.5}, None),
            ({"dtype": "float32", "D": 12}, None),
            ({"D": 12}, "multiples of 8: D=12, M=12"),
            ({"dtype": "float32", "M": 6}, "multiples of 4: D=64, M=6"),
        )
    ),
    "softmax.sdpa_cudnn": Method(
        limits=on_a_gpu(
            ({"M": 128, "padding": 0.5, "kv_heads": 1}, None),
            ({"D": 12}, "multiples of 8: D=12, M=12"),
            ({"N": 1}, "no single key"),
            ({"D": 192, "M": 128, "workload": "forward_backward"}, None),
            ({"D": 256, "workload": "forward_backward"}, None),
            ({"D": 192, "workload": "forward_backward"}, "backward takes widths up to 128"),
            ({"causal": True, "workload": "decode"}, None),
            ({"causal": True, "workload": "decode_total"}, "the first step has one"),
        )
    ),
    "softmax.differential": Method(
        variants=({}, {"layer": 12}),
        limits=(({"D": 7}, "D=7 must be even"), ({"M": 16, "kv_heads": 2, "padding": 0.5}, None)),
        mistakes=({"layer": -1}, {"layer": 1.5}),
    ),
    "softmax.fox": Method(
        cuts=(cut("softmax.eager.forgetting_product", TOKENS=14, OWN=5), unfused("partial.softmax")), limits=(SHARED_AND_WIDER,)
    ),
    "softmax.mla": Method(limits=(({"M": 1}, None), ({"D": 1, "M": 2}, "D=1 must be 2 at least"))),
    "softmax.path": Method(
        grows=16, cuts=(cut("softmax.eager.path_product", TOKENS=7), unfused("partial.softmax")), limits=(SHARED_AND_WIDER,)
    ),
    "softmax.flex": Method(
        limits=(
            ({"dtype": "bfloat16", "D": 8, "padding": 0.5}, None),
            ({"workload": "forward_backward"}, "no backward on a CPU"),
            ({"device": "cuda", "workload": "forward_backward"}, None),
            ({"device": "cuda", "D": 8}, "widths from 16: D=8"),
        )
    ),
    "softmax.flash_attn": Method(limits=(({**ON_A_GPU, "kv_heads": 1, "D": 12, "causal": True}, None),)),
    "softmax.flash_attn_3": Method(limits=(({**ON_A_GPU, "D": 12}, "multiples of 8: D=12"),)),
    "softmax.flash_attn_4": Method(
        limits=(({**ON_A_GPU, "D": 12}, "multiples of 8: D=12"), ({**ON_A_GPU, "D": 264}, "from 8 to 256, not D=264"))
    ),
    "softmax.flashinfer": Method(
        limits=(
            ({**ON_A_GPU, "causal": True, "workload": "forward_backward"}, "no backward"),
            ({**ON_A_GPU, "causal": True, "workload": "decode", "kv_heads": 1}, None),
            ({**ON_A_GPU, "D": 80, "causal": True, "workload": "decode"}, "widths of 64, 128 and 256: D=80"),
        )
    ),
    "softmax.sage": Method(
        limits=(
            ({**ON_A_GPU, "kv_heads": 1}, None),
            ({**ON_A_GPU, "causal": True}, "rounded together with later ones"),
            ({**ON_A_GPU, "N": 65}, "N=65 must be a multiple of 64"),
            ({**ON_A_GPU, "D": 80}, "widths of 64, 96 and 128: D=80"),
            ({**ON_A_GPU, "workload": "forward_backward"}, "no backward"),
        )
    ),
    "softmax.sdpa_fa3": Method(limits=(({**ON_A_GPU, "D": 264}, "widths up to 256"), ({"dtype": "bfloat16"}, "CUDA devices"))),
    "softmax.sdpa_fa4": Method(limits=(({**ON_A_GPU, "kv_heads": 1, "causal": True}, None),)),
    "softmax.transformers_sdpa": Method(concatenates=True, limits=(SHARED_AND_WIDER,)),
    "softmax.transformers_eager": Method(
        concatenates=True, off_by=1e-5, limits=(SHARED_AND_WIDER, ({"dtype": "float64"}, "not in float64"))
    ),
    "softmax.xformers": Method(
        limits=on_a_gpu(({"D": 12}, "multiples of 8: D=12"), ({"D": 12, "dtype": "float32", "M": 8, "causal": True}, None))
    ),
}
