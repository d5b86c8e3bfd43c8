"""Attention through landmarks and over pooled keys."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, drawn

METHODS = {
    "landmark.nystrom": Method(
        grows=4.6,
        variants=({"landmarks": 8}, {"landmarks": 16, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}, {}),
        any_params=drawn(landmarks=st.integers(1, 45), iterations=st.integers(0, 8)),
        limits=(({"N": 64, "M": 32}, None),),
        mistakes=({"landmarks": 0}, {"iterations": -1}, {"convolution_kernel": 4}, {"convolution_kernel": 3.0}),
    ),
    "landmark.pyramid": Method(
        grows=4.6,
        variants=({}, {"bins": "3"}, {"bins": "1,5,2"}),
        limits=(({"N": 64, "M": 32}, None),),
        mistakes=tuple({"bins": bins} for bins in ("", "1,,2", "0,1", "1;9", 7, "-1", "1,65536")),
    ),
    "landmark.nystrom_attention": Method(
        grows=4.6,
        variants=({"landmarks": 8}, {"landmarks": 4, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}),
        limits=(({"N": 64, "M": 32}, None), ({"N": 65}, "N=65 must be a multiple of landmarks=64")),
    ),
}
