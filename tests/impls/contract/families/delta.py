"""The delta rules and RWKV-7, and the same of flash-linear-attention."""

from hypothesis import strategies as st

from tests.impls.contract.families.gated import CUTS, GPU, SEQ
from tests.impls.contract.method import Method, Params, drawn

WITH_PEERS = ("deltanet", "gated_deltanet", "kda", "rwkv7")
NAMES = (*WITH_PEERS, "gated_deltanet2", "comba", "deltaproduct", "gated_deltaproduct", "mesa")
VARIANTS: tuple[Params, ...] = ({}, {"chunk": 64}, {"scale": 1.0})
OWN: dict[str, tuple[Params, ...]] = {"comba": ({"correction": 0.02},)}
SCALES: tuple[Params, ...] = ({"scale": float("inf")}, {"scale": "1"}, {"scale": float("nan")})
MISTAKES: dict[str, tuple[Params, ...]] = {"comba": ({"correction": float("inf")}, {"correction": "1"})}

METHODS = {
    **{
        f"delta.{name}": Method(
            variants=(*VARIANTS, *OWN.get(name, ())),
            grows=4,
            counted=name != "mesa",
            sums=True,
            # products of other sizes add up in another order
            bends=(*VARIANTS, *OWN.get(name, ())),
            any_params=drawn(chunk=st.integers(1, 70)),
            cuts=CUTS,
            mistakes=({"chunk": 0}, {"chunk": 2.5}, {"chunk": True}, *SCALES, *MISTAKES.get(name, ())),
        )
        for name in NAMES
    },
    "delta.ttt_linear": Method(
        grows=4,
        variants=({}, {"mini_batch": 5}),
        any_params=drawn(mini_batch=st.integers(1, 70)),
        cuts=CUTS,
        limits=(({**SEQ, "M": 32}, "M=32 must equal D=64"),),
        mistakes=({"mini_batch": 0}, {"mini_batch": 2.5}, {"mini_batch": True}),
    ),
    **{
        f"delta.{name}_fla": Method(
            grows=4,
            limits=(
                ({**GPU, "workload": "decode"}, "decode"),
                *(
                    (({**GPU, "dtype": "float32"}, "TF32"), ({**GPU, "dtype": "float32", "matmul_precision": "high"}, None))
                    if name in {"gated_deltanet", "kda"}
                    else (({**GPU, "dtype": "float32"}, "float32"),)
                ),
            ),
            mistakes=({"scale": float("nan")},),
        )
        for name in WITH_PEERS
    },
    **{
        f"delta.{name}_fla_naive": Method(
            grows=4,
            variants=({}, {"scale": 0.3}),
            bends=({}, {"scale": 0.3}),
            # its triangular systems are solved row by row, in float32
            off_by=1e-4,
            limits=(
                ({**SEQ, "workload": "decode"}, "decode"),
                ({**SEQ, "workload": "forward_backward"}, "NaN" if name == "kda" else None),
            ),
            mistakes=({"scale": float("nan")},),
        )
        for name in WITH_PEERS
    },
}
