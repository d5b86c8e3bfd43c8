"""Attention within buckets by hashing, and what it approximates."""

from hypothesis import strategies as st

from tests.impls.contract.method import Method, Params, cut, drawn

CORRECTED: Params = {"across_buckets": False, "duplicates": "corrected"}
PACKAGE: Params = {"bucket_size": 16, "attend_across_buckets": False}
COUNTS: tuple[Params, ...] = ({"rounds": 0}, {"bucket_size": "64"})

METHODS = {
    "lsh.reformer": Method(
        variants=(
            {"bucket_size": 16, "rounds": 4},
            {"bucket_size": 8, "rounds": 3, "look_forward": True, **CORRECTED},
            {"bucket_size": 8, "factorise": True},
            {"bucket_size": 16, "rounds": 1},
            {"bucket_size": 16, "rounds": 1, "look_forward": True},
            {"bucket_size": 16, **CORRECTED, "temperature": "paper"},
            {},
        ),
        any_params=drawn(
            rounds=st.integers(1, 4),
            bucket_size=st.integers(1, 20),
            temperature=st.sampled_from(["package", "paper"]),
            across_buckets=st.booleans(),
            duplicates=st.sampled_from(["allowed", "corrected"]),
            look_forward=st.booleans(),
            factorise=st.sampled_from(["auto", True]),
        ),
        cuts=tuple(cut("lsh.eager.rows", ROWS=rows, AT_ONCE=many) for rows, many in ((1, 8), (500, 40), (500, 10**6))),
        mistakes=(
            *(*COUNTS, {"temperature": "warm"}, {"duplicates": "no"}),
            *({"factorise": 1}, {"look_forward": 0}, {"across_buckets": 1}),
        ),
    ),
    "lsh.reformer_pytorch": Method(
        variants=(
            *({"bucket_size": 16, "rounds": rounds} for rounds in (1, 4, 8)),
            *({**PACKAGE, "allow_duplicate_attention": both} for both in (False, True)),
            {"bucket_size": 16, "rounds": 1, "allow_duplicate_attention": False},
        ),
        limits=(
            ({"N": 192}, "must be a multiple of 2 * bucket_size = 128"),
            ({"allow_duplicate_attention": False}, "their logits rise by 20.7"),
            ({"dtype": "bfloat16", "causal": True}, "4 times too large"),
            ({"attend_across_buckets": False, "dtype": "float16"}, "4 times too large"),
            ({"dtype": "bfloat16"}, None),
            ({"rounds": 1, "allow_duplicate_attention": False}, None),
            ({"rounds": 1, "allow_duplicate_attention": False, "dtype": "bfloat16"}, "logits become float32"),
            ({"rounds": 1, "dtype": "float16", "causal": True}, None),
        ),
        mistakes=(*COUNTS, {"bucket_size": 0}, {"attend_across_buckets": "no"}),
    ),
    "lsh.full": Method(
        variants=({}, {"temperature": "paper"}),
        # as on a GPU, whose kernels want each row of the mask at a multiple of 16 bytes
        cuts=tuple({"attnbench_impls.lsh.eager.full._step": lambda _, step=step: step} for step in (1, 8)),
        mistakes=({"temperature": "hot"}, {"temperature": 1}),
    ),
    "lsh.transformers": Method(
        variants=tuple(
            {"rounds": R, "bucket_size": m, "look_forward": look} for R in (1, 2, 4) for m in (8, 16) for look in (False, True)
        ),
        # of unit length but for a millionth; -100000 is spaced by 0.0078 in float32
        off_by=5e-5,
        limits=(
            ({"N": 200}, "must be a multiple of bucket_size = 64"),
            ({"bucket_size": 256}, "full attention without hashing"),
            ({"dtype": "bfloat16", "causal": True}, "swallows log(rounds)"),
            ({"dtype": "bfloat16"}, None),
            ({"rounds": 1, "dtype": "float16", "causal": True}, None),
            ({"bucket_size": 128}, None),
        ),
        mistakes=(*COUNTS, {"look_forward": 1}),
    ),
    "lsh.fast_transformers": Method(
        variants=(
            *({"rounds": R, "bucket_size": m, "masked": masked} for R in (1, 4) for m in (8, 32) for masked in (False, True)),
            {"bits": 3, "bucket_size": 8},
        ),
        off_by=5e-5,
        limits=(
            ({"N": 200}, "must be a multiple of bucket_size = 64"),
            ({"dtype": "bfloat16"}, "which its products then refuse"),
            ({"bucket_size": 256, "causal": True}, None),
            ({"dtype": "float64"}, None),
        ),
        mistakes=(*COUNTS, {"bits": True}, {"masked": "no"}),
    ),
}
