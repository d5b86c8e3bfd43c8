"""Attention through landmarks and over pooled keys."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params

FIRST: tuple[Params, ...] = ({"N": 1000, "B": 4}, {"N": 4096, "M": 32})
MORE: tuple[Params, ...] = ({"N": 4096}, {"N": 4096, "M": 96}, {"N": 512, "B": 4, "H": 8})
LONG: Params = {"N": 8192, "dtype": "bfloat16"}
NYSTROM: tuple[Params, ...] = ({}, {"landmarks": 128, "iterations": 3})
PYRAMID: tuple[Params, ...] = ({}, {"bins": "8,200"})
CONVOLUTION: Params = {"convolution_kernel": 33}

METHODS = {
    "landmark.nystrom": Method(
        grows=(4.6, 4.6),
        variants=({"landmarks": 8}, {"landmarks": 16, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}, {}),
        any_params=st.fixed_dictionaries({"landmarks": st.integers(1, 45), "iterations": st.integers(0, 8)}),
        peaks=(
            *((shape, params) for shape in FIRST for params in NYSTROM),
            *(({"N": 2048, "H": H}, CONVOLUTION) for H in (4, 8)),
        ),
        slow_peaks=tuple((shape, params) for shape in MORE for params in NYSTROM),
        limits=(
            ({"N": 64, "M": 32}, None),
            ({"causal": True}, "mixes all segments"),
            ({"kv_heads": 2}, "kv_heads must equal H"),
        ),
        mistakes=({"landmarks": 0}, {"iterations": -1}, {"convolution_kernel": 4}, {"convolution_kernel": 3.0}),
    ),
    "landmark.pyramid": Method(
        grows=(4.6, 4.6),
        variants=({}, {"bins": "3"}, {"bins": "1,5,2"}),
        peaks=(*((shape, params) for shape in FIRST for params in PYRAMID), (LONG, {}), ({"N": 4096, "kv_heads": 2}, {})),
        slow_peaks=tuple((shape, params) for shape in MORE for params in PYRAMID),
        limits=(({"N": 64, "M": 32}, None), ({"causal": True}, "tokens before and after")),
        mistakes=tuple({"bins": bins} for bins in ("", "1,,2", "0,1", "1;9", 7, "-1")),
    ),
    "landmark.nystrom_attention": Method(
        grows=(4.6, 4.6),
        variants=({"landmarks": 8}, {"landmarks": 4, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}),
        peaks=tuple(
            (shape, params)
            for shape in ({"N": 1024}, {"N": 2048, "B": 2}, {"N": 2048, "H": 8, "D": 32})
            for params in (*NYSTROM, CONVOLUTION)
        ),
        limits=(
            ({"N": 64, "M": 32}, None),
            ({"causal": True}, "no causal form"),
            ({"kv_heads": 2}, "kv_heads must equal H"),
            ({"dtype": "bfloat16"}, "identity matrix is float32"),
            ({"N": 65}, "N=65 must be a multiple of landmarks=64"),
        ),
    ),
}
