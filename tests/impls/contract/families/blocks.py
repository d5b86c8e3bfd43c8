"""Attention over chosen blocks: blocks so short that there is much to choose from."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn, unfused

FLA: Params = {"device": "cuda", "N": 512, "dtype": "bfloat16", "causal": True}
MOBA, NSA = {**FLA, "H": 3}, {**FLA, "H": 32, "kv_heads": 2}

# their queries are grouped by the blocks that they choose: later ones may change how a sum is cut
MOBA_OPTIONS: tuple[Params, ...] = tuple({"block": 8, "topk": topk} for topk in (1, 2, 3, 4))
NSA_OPTIONS: tuple[Params, ...] = tuple(
    {"block": 8, "selected": selected, "window": window} for selected, window in ((4, 10), (3, 1), (5, 100))
)
MSA_OPTIONS: tuple[Params, ...] = tuple(
    {"block": block, "selected": selected, "local": local} for block, selected, local in ((8, 3, 1), (8, 4, 2), (5, 1, 1))
)
CUTS = (
    cut("blocks.eager.lists", QUERIES=30, HEADS=2, SORTED=50)
    | cut("blocks.eager.own_block", QUERIES=30)
    | cut("blocks.eager.choosing", SCORES=60),
    unfused("partial.softmax"),
)

METHODS = {
    "blocks.moba": Method(
        grows=16,
        variants=MOBA_OPTIONS,
        bends=MOBA_OPTIONS,
        any_params=drawn(block=st.integers(1, 20), topk=st.integers(1, 6)),
        cuts=CUTS,
        mistakes=({"block": 0}, {"topk": 0}, {"block": 2.5}, {"topk": True}, {"block": 1 << 63}),
    ),
    "blocks.nsa": Method(
        grows=16,
        variants=NSA_OPTIONS,
        bends=NSA_OPTIONS,
        any_params=drawn(block=st.integers(1, 20), selected=st.integers(3, 7), window=st.integers(1, 90)),
        cuts=(CUTS[0] | cut("blocks.eager.tiles", _STAIRS=20), CUTS[1]),
        mistakes=({"block": 0}, {"selected": 2}, {"window": 0}, {"selected": "many"}, {"window": 1 << 63}),
    ),
    "blocks.hca": Method(
        grows=16,
        variants=({"block": 8, "window": 10}, {"block": 3, "window": 1}, {"block": 100, "window": 5}),
        any_params=drawn(block=st.integers(1, 20), window=st.integers(1, 40)),
        cuts=(cut("blocks.eager.entries", _QUERIES=7), cut("blocks.eager.entries", _SCORES=60)),
        limits=(({"causal": True, "kv_heads": 2}, "kv_heads must equal"), ({}, "seen by those after it")),
        mistakes=({"block": 0}, {"window": 0}, {"block": 2.5}, {"block": 1 << 63}),
    ),
    "blocks.csa": Method(
        grows=16,
        variants=({"block": 4, "window": 10, "k": 5}, {"block": 3, "window": 1, "k": 2}, {"block": 2, "window": 5, "k": 200}),
        any_params=drawn(block=st.integers(1, 9), window=st.integers(1, 40), k=st.integers(1, 20)),
        cuts=(
            cut("blocks.eager.entries", _QUERIES=7) | cut("partial.index", QUERIES=5),
            cut("blocks.eager.entries", _SCORES=60) | cut("partial.index", SCORES=60),
        ),
        limits=(({"causal": True, "kv_heads": 2}, "kv_heads must equal"),),
        mistakes=({"block": 0}, {"window": 0}, {"k": 0}, {"k": 1.5}),
    ),
    "blocks.msa": Method(
        grows=16,
        variants=MSA_OPTIONS,
        bends=MSA_OPTIONS,
        any_params=drawn(block=st.integers(1, 20), selected=st.integers(1, 7)),
        cuts=(CUTS[0] | cut("partial.index", SCORES=300), CUTS[1]),
        mistakes=({"block": 0}, {"selected": 0}, {"local": 0}, {"local": 17}, {"selected": 2.5}),
    ),
    "blocks.moba_fla": Method(limits=(({**MOBA, "topk": 1}, "all earlier keys"), ({**MOBA, "D": 20}, "multiples of 8: D=20"))),
    "blocks.nsa_fla": Method(
        limits=(
            ({**NSA, "selected": "many", "M": 64}, None),
            ({**NSA, "kv_heads": 4}, "16 at least, not 8"),
            ({**NSA, "H": 48}, "a power of two, 16 at least, not 24"),
            ({**NSA, "block": 48}, "a power of two, 16 at least, not 48"),
            ({**NSA, "selected": 12}, "not selected=12"),
            ({**NSA, "block": 16}, "must be at least twice selected=16"),
        )
    ),
}
