"""The parameters of reformer-pytorch's LSH attention, and how they limit each other."""

from dataclasses import dataclass

from attnbench.api import Problem

from ..counts import refuse_bad_counts, refuse_bad_flags


@dataclass(frozen=True)
class Options:
    """Rounds of hashing, tokens per bucket, and the package's two flags. Raises ValueError on bad values."""

    rounds: int = 4
    bucket_size: int = 64
    allow_duplicate_attention: bool = True
    attend_across_buckets: bool = True

    def __post_init__(self) -> None:
        refuse_bad_counts(rounds=self.rounds, bucket_size=self.bucket_size)
        refuse_bad_flags(
            allow_duplicate_attention=self.allow_duplicate_attention, attend_across_buckets=self.attend_across_buckets
        )

    def why_not(self, p: Problem) -> str | None:
        """Say in words why the package cannot attend this problem with these options, or return None."""
        if p.N % (2 * self.bucket_size):
            return f"N={p.N} must be a multiple of 2 * bucket_size = {2 * self.bucket_size}"
        if self.rounds > 1 and self.attend_across_buckets and not self.allow_duplicate_attention:
            return (
                "reformer-pytorch miscounts duplicates across buckets in several rounds: pairs that meet over the seam of two "
                "rounds get count 0, so their logits rise by 20.7; allow duplicates, or attend within buckets only"
            )
        if not self.allow_duplicate_attention and p.dtype.bytes == 2:
            return f"without duplicates reformer-pytorch's logits become float32, and it multiplies them with {p.dtype} values"
        if self.rounds > 1 and p.dtype.bytes == 2 and (p.causal or not self.attend_across_buckets):
            return (
                f"in {p.dtype} a token that sees only itself, as the first causal one does, comes out {self.rounds} times too "
                "large: -50000 + log(rounds) rounds to -50000, so that each round gets the weight 1"
            )
        return None
