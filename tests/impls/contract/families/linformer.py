"""Attention over projected keys: fewer keys than most of the lengths that are tried, and more than the others."""

from typing import Any

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, Size

SHARED: tuple[str, ...] = ("none", "headwise", "key_value", "layerwise")
SHAPES: tuple[Params, ...] = ({"N": 1000, "B": 4}, {"N": 2048, "B": 2, "padding": 0.5})
MORE: tuple[Params, ...] = (
    {"N": 2048},
    {"N": 8192, "dtype": "bfloat16"},
    {"N": 2048, "M": 32},
    {"N": 2048, "M": 96},
    {"N": 2048, "kv_heads": 2},
)
THEIRS: tuple[Params, ...] = ({"N": 1024}, {"N": 2048, "B": 2}, {"N": 2048, "H": 8, "D": 32})
ANY = st.fixed_dictionaries({"k": st.integers(1, 45)})
COUNTS: tuple[Params, ...] = ({"k": 0}, {"k": 2.5}, {"k": True})
MIXES: tuple[tuple[Params, str | None], ...] = (
    ({"N": 64, "causal": True}, "mixes all positions"),
    ({"N": 64, "H": 4, "kv_heads": 2, "padding": 0.5}, None),
)


def sizes(shapes: tuple[Params, ...], *sharing: str) -> tuple[Size, ...]:
    return tuple((shape, {"k": 128, **({"sharing": how} if how else {})}) for shape in shapes for how in sharing or ("",))


def ours(**fields: Any) -> Method:
    about = {"variants": ({"k": 16},), "any_params": ANY, "by_length": True, "peaks": sizes(SHAPES), "slow_peaks": sizes(MORE)}
    return Method(**{**about, **fields})


METHODS = {
    "linformer.linformer": ours(
        rough=({"k": 16, "sharing": "none"},),
        variants=(*({"k": 16, "sharing": how} for how in SHARED), {}),
        any_params=st.fixed_dictionaries({"k": st.integers(1, 45), "sharing": st.sampled_from(SHARED)}),
        peaks=sizes(SHAPES, *SHARED[:3]),
        slow_peaks=sizes(MORE, *SHARED[:3]),
        limits=MIXES,
        mistakes=(*COUNTS, {"sharing": "kv"}),
    ),
    "linformer.mean": ours(limits=MIXES, mistakes=COUNTS),
    "linformer.convolution": ours(limits=MIXES, mistakes=COUNTS),
    "linformer.lucidrains": Method(
        variants=({"k": 16},),
        peaks=sizes(THEIRS),
        limits=(
            ({"N": 64}, None),
            ({"causal": True}, "no causal form"),
            ({"kv_heads": 2}, "kv_heads must equal H"),
            ({"M": 32}, "M=32 must equal D=64"),
        ),
        mistakes=({"k": 0},),
    ),
    "linformer.tatp22": Method(
        variants=tuple({"k": 16, "sharing": how} for how in SHARED),
        peaks=sizes(THEIRS, *SHARED),
        limits=(
            ({"N": 64}, None),
            ({"causal": True}, "still depend on later tokens"),
            ({"kv_heads": 2}, "kv_heads must equal H"),
        ),
        mistakes=({"k": 0},),
    ),
}
