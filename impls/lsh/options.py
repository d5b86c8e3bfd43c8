"""The parameters of LSH attention and how they limit each other."""

from dataclasses import dataclass

from attnbench.api import Problem


@dataclass(frozen=True)
class Options:
    """Rounds of hashing, tokens per bucket, and the package's two flags. Raises ValueError on what cannot be."""

    rounds: int = 4
    bucket_size: int = 64
    allow_duplicate_attention: bool = True
    attend_across_buckets: bool = True

    def __post_init__(self) -> None:
        for name in ("rounds", "bucket_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}={value!r}: must be a whole number, 1 or more")
        for name in ("allow_duplicate_attention", "attend_across_buckets"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r}: must be true or false")

    def why_not(self, p: Problem) -> str | None:
        """Why the package cannot attend this with these options, in words, or None."""
        if p.N % (2 * self.bucket_size):
            return f"N={p.N} must be a multiple of 2 * bucket_size = {2 * self.bucket_size}"
        if self.rounds > 1 and self.attend_across_buckets and not self.allow_duplicate_attention:
            return (
                "reformer-pytorch miscounts duplicates across buckets in several rounds: pairs that meet over the seam of two "
                "rounds get count 0, so their logits rise by 20.7; allow duplicates, or attend within buckets only"
            )
        if self.rounds > 1 and p.dtype.bytes == 2 and (p.causal or not self.attend_across_buckets):
            return (
                f"in {p.dtype} a token that sees only itself, as the first causal one does, comes out {self.rounds} times too "
                "large: -50000 + log(rounds) rounds to -50000, so that each round gets the weight 1"
            )
        return None
