"""LSH attention of the package pytorch-fast-transformers.

B batch, H heads, R rounds, N tokens, D width of queries, keys and values, m bucket size. The package's own order is
[B, N, H, D].
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Causality, Cell, Cost, Layout, Problem, Scalar, Tier, Workload, default_scale, nominal_flops

from ..family import SharedQK, least_bytes, refuse_two_tensors
from ..shared_qk import shared_qk_attention
from .fast_transformers_options import Options
from .fast_transformers_reference import fast_transformers_attention
from .sorting import recorded, replayed


class FastTransformersLSH(SharedQK):
    """`ReformerAttention` of pytorch-fast-transformers, hashing included, without dropout.

    It differs from Kitaev et al. 2020, section 2: a plain average over the rounds, logits q·k̂ / √D, a token that attends to
    itself unless `masked`, nothing before the first chunk of a round, and a number of buckets, 2 · bits, that does not grow
    with N. A causal or masked call builds N × N numbers for each sample. The buckets are drawn anew at each call, and tokens of
    one bucket are in no fixed order. Later keys change that order, so a causal call hides later values only. The masks that it
    reads are built once. Raises ValueError on bad parameters.
    """

    tier = Tier.LIBRARY
    causality = Causality.VALUES_ONLY
    layout = Layout.BNHD
    requires = ("pytorch-fast-transformers>=0.4",)
    grouped = False
    one_width = True

    def __init__(self, problem: Problem, rounds: int = 4, bucket_size: int = 64, bits: int = 8, masked: bool = False) -> None:
        from fast_transformers.attention.reformer_attention import ReformerAttention

        super().__init__(problem)
        self.options = Options(rounds, bucket_size, bits, masked)
        self.attention: Any = ReformerAttention(
            chunk_size=bucket_size, bits=bits, rounds=rounds, masked=masked, attention_dropout=0.0
        )

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse ragged lengths, different widths, shared heads, and narrow dtypes."""
        try:
            options = Options(**cell.params)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None  # a mistake, not a limit: the constructor says what is right
        return options.why_not(cell.problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count hashing, which has no backward, and R rounds over two chunks, including hidden pairs.

        A first chunk needs no chunk before it. Raises TypeError or ValueError on bad parameters.
        """
        p, options = problem, Options(**params)  # type: ignore[arg-type]
        passes, m = 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0, options.bucket_size
        hashing = p.B * p.H * p.N * options.rounds * 2.0 * p.D * options.bits
        pair = passes * options.rounds * p.B * p.H * 2.0 * (p.D + p.M)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=hashing + pair * m * (2 * p.N - m),
            executed_flops=hashing + pair * m * 2 * p.N,
            traffic_bytes=least_bytes(p, workload),
        )

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Attend once and record how the package sorts: for each round the tokens in their order, int64 [B, H, R, N]."""
        with recorded() as orders:
            self._attend(inputs[0], inputs[2])
        return torch.stack(orders, dim=1).permute(0, 3, 1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], the same tensor, [B, H, N, D] -> [B, H, N, D], in the memory order [B, N, H, D].

        Raises ValueError unless k is q.
        """
        refuse_two_tensors(q, k)
        if choices is None:
            return self._attend(q, v)
        with replayed([order_BHN.transpose(1, 2) for order_BHN in choices.unbind(2)]):
            return self._attend(q, v)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute the package's definition with the same order, or with a new one. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        order = (self.choose(q, k, v) if choices is None else choices).flatten(0, 1)
        o = fast_transformers_attention(q.flatten(0, 1), v.flatten(0, 1), order, self.options, causal=self.problem.causal)
        o_BHND: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHND

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - heads are alike, and k is q
        """Compute the package's definition for the queries `at`, with the order [R, N]."""
        assert choices is not None
        causal = self.problem.causal
        return fast_transformers_attention(q[None], v[None], choices[None], self.options, causal=causal, at=at).squeeze(0)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shared-QK attention over all keys, the token itself among them unless it is masked."""
        refuse_two_tensors(q, k)
        scale, causal = default_scale(self.problem), self.problem.causal
        return shared_qk_attention(q, v, scale, causal=causal, hides_self=self.options.masked)

    def _attend(self, qk: Tensor, v: Tensor) -> Tensor:
        B, _, N, _ = qk.shape
        pairs, keys = _masks(self.problem.causal, B, N, qk.device)
        q_BNHD = qk.transpose(1, 2)
        # the package derives keys from the queries, and uses the given ones for nothing but their shape
        o: Tensor = self.attention(q_BNHD, q_BNHD, v.transpose(1, 2), pairs, None, keys)
        return o.transpose(1, 2)


@lru_cache(maxsize=1)
def _masks(causal: bool, B: int, N: int, device: torch.device) -> tuple[Any, Any]:
    """Build masks of the visible pairs and of the keys [B, N] that exist, which is all of them.

    They are cached, since a model builds them once for all its layers. For a non-causal call the package only asks whether the
    first is full, so one of 1 × 1 serves instead of N × N booleans.
    """
    from fast_transformers.masking import FullMask, TriangularCausalMask

    pairs = TriangularCausalMask(N, device=device) if causal else FullMask(1, 1, device=device)
    return pairs, FullMask(B, N, device=device)
