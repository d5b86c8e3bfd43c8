"""The parameters of our Reformer attention."""

import math
from dataclasses import dataclass

from ..counts import refuse_bad_counts, refuse_bad_flags
from ..temperature import PACKAGE, PAPER

ALLOWED, CORRECTED, AUTO = "allowed", "corrected", "auto"

LARGEST_WHOLE = 128
"""Number of buckets beyond which "auto" factorises hashing: there projecting costs about half of attending."""


@dataclass(frozen=True)
class ReformerOptions:
    """Rounds of hashing, tokens of a chunk, and the variant of the function. Raises ValueError on bad values.

    `temperature`: logits q·k̂ / √D ("package") or q·k̂ ("paper": the equations as printed, which omit the scale for clarity).
    `across_buckets`: also keys of other buckets in the window. `duplicates`: a pair that meets in several rounds counts each
    time ("allowed") or once in all ("corrected": Kitaev et al. 2020, N_ij of eq. 13 and 16). `look_forward`: also the chunk
    after the own one. `factorise`: hash by two small rotations instead of one large; "auto": where there are more than 128
    buckets.
    """

    rounds: int = 4
    bucket_size: int = 64
    temperature: str = "package"
    across_buckets: bool = True
    duplicates: str = "allowed"
    look_forward: bool = False
    factorise: bool | str = AUTO

    def __post_init__(self) -> None:
        refuse_bad_counts(rounds=self.rounds, bucket_size=self.bucket_size)
        refuse_bad_flags(across_buckets=self.across_buckets, look_forward=self.look_forward)
        _refuse_other("temperature", self.temperature, (PACKAGE, PAPER))
        _refuse_other("duplicates", self.duplicates, (ALLOWED, CORRECTED))
        if not isinstance(self.factorise, bool) and self.factorise != AUTO:
            raise ValueError(f"factorise={self.factorise!r}: must be true, false or {AUTO!r}")

    def factors(self, N: int) -> tuple[int, ...]:
        """Choose even numbers whose product is the number of buckets of a round: N / bucket_size, or a little more."""
        buckets = 2 * math.ceil(N / (2 * self.bucket_size))
        if not (buckets > LARGEST_WHOLE if self.factorise == AUTO else self.factorise):
            return (buckets,)
        first = 2 * max(1, round(math.sqrt(buckets) / 2))
        return first, 2 * math.ceil(buckets / (2 * first))


def _refuse_other(name: str, value: str, known: tuple[str, str]) -> None:
    if value not in known:
        raise ValueError(f"{name}={value!r}: must be {known[0]!r} or {known[1]!r}")
