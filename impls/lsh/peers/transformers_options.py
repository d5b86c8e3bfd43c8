"""The parameters of Hugging Face's LSH attention, and the number of buckets that follows from them."""

from dataclasses import dataclass

from attnbench.api import Problem

from ..counts import refuse_bad_counts, refuse_bad_flags


@dataclass(frozen=True)
class Options:
    """Rounds of hashing, tokens of a chunk (`lsh_attn_chunk_length`), and whether a chunk sees the one after it.

    Raises ValueError on bad values.
    """

    rounds: int = 4
    bucket_size: int = 64
    look_forward: bool = False

    def __post_init__(self) -> None:
        refuse_bad_counts(rounds=self.rounds, bucket_size=self.bucket_size)
        refuse_bad_flags(look_forward=self.look_forward)

    def why_not(self, p: Problem) -> str | None:
        """Say in words why the package cannot attend this problem with these options, or return None."""
        if p.N % self.bucket_size or p.N // self.bucket_size < 2:
            return (
                f"N={p.N} must be a multiple of bucket_size = {self.bucket_size}, and more: the model fills up other lengths, "
                "and one chunk alone gets full attention without hashing"
            )
        if self.rounds > 1 and p.dtype.bytes == 2 and p.causal:
            return (
                f"in {p.dtype} the first causal token, which sees only itself, comes out wrong in several rounds: its logit of "
                "-100000, or -1000 in float16, swallows log(rounds) or part of it"
            )
        return None

    def factors(self, N: int) -> list[int]:
        """Choose the factors of the number of buckets: the power of 2 up to 2 N / m, in two factors where that is large.

        This is how `_set_num_buckets` of the package sets them in a model whose longest sequence is N.
        """
        chunks = N // self.bucket_size
        power = (2 * chunks).bit_length() - 1
        if 2**power <= 2 * max(int(chunks**0.5), self.bucket_size):
            return [2**power]
        return [2 ** (power // 2), 2 ** (power - power // 2)]
