"""The peak of memory of triton.py, in bytes beyond inputs, with output and gradients.

B batch, H heads, N tokens, S codes, T tables, D query/key width, M value width. This is on a GPU, where codes are chosen for
more keys at a time than on a CPU.
"""

from dataclasses import dataclass

from attnbench.api import Problem

from .codebook import DISTANCES
from .options import VQOptions
from .triton_plan import Plan

# what codebook.py and rms.py take at once on a GPU: distances of keys to codes, and elements
_DISTANCES = 64 * DISTANCES
_ELEMENTS = 2**24


@dataclass(frozen=True)
class TritonFootprint:
    """Sizes of one call; `e` bytes of an element, and float32 copies where that is not the dtype itself."""

    p: Problem
    o: VQOptions
    plan: Plan

    @property
    def e(self) -> int:
        """Return the bytes of an element of q, k and v."""
        return self.p.dtype.bytes

    @property
    def tokens(self) -> int:
        """Count the tokens of all heads."""
        return self.p.B * self.p.H * self.p.N

    def forward(self, *, trains: bool = False) -> float:
        """Count the bytes of normalising, of choosing codes, or of attending, whichever are most."""
        keys, norms = self.tokens * self.p.D * self.e, trains * self._norms()
        coded = keys + 8.0 * self.tokens + self._codebook(self.e)
        choosing = keys + norms / 2 + 8.0 * self.tokens + self._codebook(4) + self._distances()
        return max(
            choosing,
            norms / 2 + coded + self._codebook(4) + keys + 8.0 * self.tokens,
            norms / 2 + coded + self._normalising(),
            norms + coded + keys + self._output() + self._tables(),
        )

    def forward_backward(self) -> float:
        """Count the bytes of gradients and what the forward keeps, during the kernels or while dq and dk pass the norm."""
        p = self.p
        kept = self.tokens * p.M * self.e + self._norms() + self.tokens * (2 * p.D + p.M) * self.e
        coded = 2 * self.tokens * p.D * self.e + 8.0 * self.tokens + self._codebook(self.e)
        # the logsumexp, and g·o of each row
        attending = coded + 8.0 * self.tokens + self._tables()
        return max(self.forward(trains=True), kept + max(attending, self._through_norm()))

    def _codebook(self, e: int) -> float:
        return float(self.p.H * self.o.codes * self.p.D * e)

    def _norms(self) -> float:
        """Count the bytes of one number a token of q, and one of k, for the backward."""
        return 8.0 * self.tokens if self.o.normalise else 0.0

    def _output(self) -> float:
        """Count the bytes of the output and the logsumexp."""
        return self.tokens * (self.p.M * self.e + 4.0)

    def _tables(self) -> float:
        """Count the bytes of means and counts."""
        return 4.0 * self.p.B * self.p.H * self.plan.cut.tables * self.o.codes * (self.p.M + 1)

    def _normalising(self) -> float:
        """Count the bytes of the result, one number a token, and some of the input in float32."""
        if not self.o.normalise:
            return float(self.tokens * self.p.D * self.e)
        return self.tokens * (self.p.D * self.e + 4.0) + (self._wide() if self.e < 4 else 0)

    def _distances(self) -> float:
        """Count the bytes of the distances of keys taken at once, of their minima with indices, and of copies of these keys."""
        S, rows = self.o.codes, self.p.B * self.p.H
        some = rows * min(self.p.N, max(1, _DISTANCES // (rows * S)))
        copied = self.p.D * 4 if self.e < 4 or self.p.B > 1 else 0
        return some * (4.0 * S + copied + 12)

    def _through_norm(self) -> float:
        """Count the bytes of a new gradient, and of its sum in float32 for some tokens.

        Half dtypes need a float32 copy of gradient and input too.
        """
        if not self.o.normalise:
            return float(self.tokens * self.p.D * self.e)
        return self.tokens * (self.p.D * self.e + 4.0) + self._wide() * (3 if self.e < 4 else 1)

    def _wide(self) -> float:
        """Count the bytes of the elements that are normalised together, in float32."""
        return 4.0 * min(self.tokens * self.p.D, _ELEMENTS)
