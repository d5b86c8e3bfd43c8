"""Attention over projected keys: fewer keys than most of the lengths that are tried, and more than the others."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, drawn

SHARED: tuple[str, ...] = ("none", "headwise", "key_value", "layerwise")
ANY = drawn(k=st.integers(1, 45))
COUNTS: tuple[Params, ...] = ({"k": 0}, {"k": 2.5}, {"k": True})
MIXES: tuple[tuple[Params, str | None], ...] = (({"N": 64, "H": 4, "kv_heads": 2, "padding": 0.5}, None),)

METHODS = {
    "linformer.linformer": Method(
        by_length=True,
        variants=(*({"k": 16, "sharing": how} for how in SHARED), {}),
        any_params=drawn(k=st.integers(1, 45), sharing=st.sampled_from(SHARED)),
        limits=MIXES,
        mistakes=(*COUNTS, {"sharing": "kv"}),
    ),
    "linformer.mean": Method(variants=({"k": 16},), any_params=ANY, by_length=True, limits=MIXES, mistakes=COUNTS),
    "linformer.convolution": Method(variants=({"k": 16},), any_params=ANY, by_length=True, limits=MIXES, mistakes=COUNTS),
    "linformer.lucidrains": Method(variants=({"k": 16},), limits=(({"N": 64}, None),), mistakes=({"k": 0},)),
    "linformer.tatp22": Method(
        variants=tuple({"k": 16, "sharing": how} for how in SHARED), limits=(({"N": 64}, None),), mistakes=({"k": 0},)
    ),
}
