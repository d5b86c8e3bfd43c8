"""Problem: the shape, dtype and mask of one attention call.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from attnbench.schema.noun import Lax, Noun

LARGEST_BATCH = 2**20
"""The largest batch: sixteen times the rows of a CUDA grid, and few enough that a list with one entry a row fits in memory."""


class DType(StrEnum):
    """The element types a suite may name; the values are torch's own names."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"

    @property
    def bytes(self) -> int:
        """The bytes of one element."""
        return {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}[self.value]


HALF: tuple[DType, ...] = (DType.FLOAT16, DType.BFLOAT16)
UP_TO_FLOAT32: tuple[DType, ...] = (DType.FLOAT32, *HALF)


class Problem(Noun):
    """q [B, H, N, D], k [B, kv_heads, N, D], v [B, kv_heads, N, M] -> o [B, H, N, M].

    With padding, sequences end early: row b of the batch has `lengths[b]` keys, and the rest is hidden from every query.
    """

    B: int = Field(default=1, ge=1, le=LARGEST_BATCH)
    H: int = Field(default=8, ge=1)
    N: int = Field(ge=1)
    D: int = Field(default=64, ge=1)
    M: int = Field(ge=1, default_factory=lambda known: known.get("D", 1), description="value width; D where not given")
    kv_heads: int = Field(ge=1, default_factory=lambda known: known.get("H", 1), description="heads of k, v; H where not given")
    dtype: Lax[DType] = DType.FLOAT32
    causal: bool = False
    padding: float = Field(default=0.0, ge=0, lt=1, description="share of the keys that the last row of the batch hides")
    documents: tuple[int, ...] = Field(
        default=(), description="tokens of each document of a row; their sum is N", exclude_if=lambda lengths: not lengths
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.H % self.kv_heads:
            raise ValueError(f"kv_heads={self.kv_heads} must divide H={self.H}")
        if self.documents and sum(self.documents) != self.N:
            raise ValueError(f"documents={self.documents} must add up to N={self.N}")
        return self

    if TYPE_CHECKING:
        # pydantic validates whatever is given
        def __init__(self, **data: Any) -> None: ...  # noqa: ANN401

    @property
    def mask(self) -> str:
        """`causal` or `non-causal`."""
        return "causal" if self.causal else "non-causal"

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of keys of each row: nearly N in the first, falling to (1 - padding) N in the last; at least one."""
        return tuple(max(1, self.N - round(self.padding * self.N * (b + 1) / self.B)) for b in range(self.B))

    @property
    def in_one_row(self) -> Self:
        """The same documents without padding, one after the other: one row of as many tokens as `lengths` has in all."""
        if self.documents:
            return self
        return self.model_copy(update={"B": 1, "N": sum(self.lengths), "padding": 0.0, "documents": self.lengths})

    def canonical(self) -> dict[str, Any]:
        """Return the fields as JSON data without defaults, for the key of a cell."""
        data = self.model_dump(mode="json", exclude_defaults=True)
        if self.M == self.D:
            del data["M"]
        if self.kv_heads == self.H:
            del data["kv_heads"]
        return data
