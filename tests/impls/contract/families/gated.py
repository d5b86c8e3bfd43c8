"""Gated linear attention, and the same of flash-linear-attention."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn

OWN: dict[str, tuple[Params, ...]] = {
    "lightning": ({"slopes": "fla", "layer": 3, "layers": 4}, {"slopes": "fla"}, {"layer": 1, "layers": 3}),
    "hgrn2": ({"lower_bound": 0.3},),
}
MISTAKES: dict[str, tuple[Params, ...]] = {
    "lightning": ({"slopes": "steep"}, {"layers": 2.5}, *({"layer": layer, "layers": 2} for layer in (2, 0.5, 0.0, True))),
    "hgrn2": ({"lower_bound": 1.0}, {"lower_bound": -0.5}),
}
NAMES = ("retnet", "lightning", "mamba2", "gla", "hgrn2")
CUTS = tuple(cut("recurrence.parts", TOKENS=tokens, ROWS_TOGETHER=rows) for tokens in (1, 64) for rows in (1, 3))
SEQ: Params = {"causal": True}
GPU: Params = {"causal": True, "dtype": "bfloat16", "device": "cuda"}

METHODS = {
    **{
        f"gated.{name}": Method(
            grows=4,
            sums=True,
            numbered=name in {"retnet", "lightning"},
            variants=({}, {"chunk": 16}, *OWN.get(name, ()), {"chunk": 32}),
            # chunks of 64 tokens are cut into blocks as short as their decays ask for
            bends=({}, *OWN.get(name, ())),
            any_params=drawn(chunk=st.integers(1, 200)),
            cuts=CUTS,
            mistakes=({"chunk": 0}, *MISTAKES.get(name, ())),
        )
        for name in NAMES
    },
    **{
        f"gated.{name}": Method(
            grows=4,
            sums=True,
            variants=({}, {"chunk": 16}),
            bends=({}, {"chunk": 16}),
            any_params=drawn(chunk=st.integers(1, 200)),
            cuts=CUTS,
            limits=(({**SEQ, "D": 1, "M": 2}, "D=1 must be" if name == "mamba3" else None), ({**SEQ, "M": 1}, None)),
            mistakes=({"chunk": 0},),
        )
        for name in ("mamba3", "gsa")
    },
    "gated.log_linear": Method(
        grows=4 * 1.25,
        variants=({}, {"chunk": 16}),
        any_params=drawn(chunk=st.sampled_from([2**j for j in range(8)])),
        cuts=CUTS,
        mistakes=({"chunk": 0}, {"chunk": 48}),
    ),
    **{
        f"gated.{name}_fla": Method(
            grows=4,
            limits=(
                ({**GPU, "dtype": "float16", "D": 63}, None),
                ({**GPU, "dtype": "float32", "matmul_precision": "high"}, None),
                ({**GPU, "dtype": "float16", "D": 63, "workload": "forward_backward"}, "even widths"),
            ),
            mistakes=MISTAKES.get(name, ()),
        )
        for name in NAMES
    },
    **{
        f"gated.{name}_fla_naive": Method(
            grows=4,
            bends=({},),
            # it adds chunk after chunk in float32
            off_by=2e-5,
            limits=((GPU, None),),
            mistakes=MISTAKES.get(name, ()),
        )
        for name in ("retnet", "lightning", "mamba2")
    },
}
