"""LSH attention of the package reformer-pytorch.

B batch, H heads, R rounds, N tokens, D width of queries, keys and values, m bucket size.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Causality, Cell, Cost, Problem, Scalar, Tier, Workload, default_scale, dense_flops

from ..family import SharedQK, least_bytes, refuse_two_tensors
from ..reference import Rules, lsh_attention
from ..shared_qk import shared_qk_attention
from .reformer_pytorch_options import Options


class ReformerPytorchLSH(SharedQK):
    """`LSHAttention` of reformer-pytorch 1.4.4, hashing included, with heads folded into the batch.

    Kitaev et al. 2020, section 2; logits q·k̂ / √D, whose scale the paper omits from eq. 2 on for clarity. Queries and keys are
    one tensor. Later keys change the sorted order, so a causal call hides later values only. Buckets are drawn anew at each
    call, from torch's global generator; there is no dropout. Raises ValueError on bad parameters.
    """

    tier = Tier.LIBRARY
    causality = Causality.VALUES_ONLY
    requires = ("reformer-pytorch>=1.4.4",)
    grouped = False
    one_width = True

    def __init__(
        self,
        problem: Problem,
        rounds: int = 4,
        bucket_size: int = 64,
        allow_duplicate_attention: bool = True,
        attend_across_buckets: bool = True,
    ) -> None:
        from reformer_pytorch import LSHAttention

        super().__init__(problem)
        self.options = Options(rounds, bucket_size, allow_duplicate_attention, attend_across_buckets)
        self.rules = Rules(bucket_size, problem.causal, attend_across_buckets, allow_duplicate_attention)
        self.attention: Any = LSHAttention(
            n_hashes=rounds,
            bucket_size=bucket_size,
            causal=problem.causal,
            allow_duplicate_attention=allow_duplicate_attention,
            attend_across_buckets=attend_across_buckets,
        )

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse lengths and dtypes that these options cannot take."""
        try:
            options = Options(**cell.params)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None  # a mistake, not a limit: the constructor says what is right
        return options.why_not(cell.problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count hashing, which has no backward, and R rounds over two buckets of m, including what a causal call hides.

        Raises TypeError or ValueError on bad parameters.
        """
        options = Options(**params)  # type: ignore[arg-type]
        p, trains = problem, workload is Workload.FORWARD_BACKWARD
        passes, slots = (3.0 if trains else 1.0), p.B * p.H * p.N * options.rounds
        hashing = slots * p.D * (p.N / options.bucket_size)
        work = hashing + passes * slots * 4.0 * options.bucket_size * (p.D + p.M)
        return Cost(
            nominal_flops=passes * dense_flops(p),
            exact_flops=work,
            executed_flops=work,
            traffic_bytes=least_bytes(p, workload),
        )

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Hash the queries: buckets int64 [B, H, R, N], with different numbers in each round."""
        qk = inputs[0].flatten(0, 1)
        buckets: Tensor = self.attention.hash_vectors(qk.shape[1] // self.options.bucket_size, qk, set_cache=False)
        return buckets.view(*inputs[0].shape[:2], self.options.rounds, -1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], the same tensor, [B, H, N, D] -> [B, H, N, D]. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        # the package has rounds side by side, and heads folded into the batch
        with _buckets_given(self.attention, None if choices is None else choices.flatten(2).flatten(0, 1)):
            o, _, _ = self.attention(q.flatten(0, 1), v.flatten(0, 1))
        o_BHND: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHND

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute the definition with the same buckets, or with newly drawn ones. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        buckets = self.choose(q, k, v) if choices is None else choices
        o = lsh_attention(q.flatten(0, 1), v.flatten(0, 1), buckets.flatten(0, 1), self.rules)
        o_BHND: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHND

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - heads are alike, and k is q
        """Compute the definition for the queries `at`, with buckets [R, N]."""
        assert choices is not None
        return lsh_attention(q[None], v[None], choices[None], self.rules, at).squeeze(0)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shared-QK attention over all keys, with the same temperature."""
        refuse_two_tensors(q, k)
        return shared_qk_attention(q, v, default_scale(self.problem), causal=self.problem.causal)


@contextmanager
def _buckets_given(attention: Any, buckets: Tensor | None) -> Iterator[None]:  # noqa: ANN401 - the package has no types
    """Make the package take these buckets instead of hashing; None leaves it as it is."""
    if buckets is None:
        yield
        return
    attention.hash_vectors = lambda *_, **__: buckets
    try:
        yield
    finally:
        del attention.hash_vectors
