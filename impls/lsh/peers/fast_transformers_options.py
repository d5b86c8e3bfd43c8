"""The parameters of pytorch-fast-transformers' LSH attention."""

from dataclasses import dataclass

from attnbench.api import Problem

from ..counts import refuse_bad_counts, refuse_bad_flags


@dataclass(frozen=True)
class Options:
    """Rounds of hashing, tokens of a chunk, planes of the hash (2 · bits buckets), and whether a token is hidden from itself.

    Raises ValueError on bad values.
    """

    rounds: int = 4
    bucket_size: int = 64
    bits: int = 8
    masked: bool = False

    def __post_init__(self) -> None:
        refuse_bad_counts(rounds=self.rounds, bucket_size=self.bucket_size, bits=self.bits)
        refuse_bad_flags(masked=self.masked)

    def why_not(self, p: Problem) -> str | None:
        """Say in words why the package cannot attend this problem with these options, or return None."""
        if p.N % self.bucket_size:
            return f"N={p.N} must be a multiple of bucket_size = {self.bucket_size}"
        if p.dtype.bytes == 2:
            return f"its float32 key mask converts {p.dtype} keys to float32, which its products then refuse"
        return None
