"""LSH attention of Hugging Face's transformers.

B batch, H heads, R rounds, N tokens, D width of queries, keys and values, m bucket size. The package's order is [B, N, H · D].
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attnbench.api import Causality, Cell, Cost, Layout, Problem, Scalar, Tier, Workload, nominal_flops

from ..family import SharedQK, least_bytes, refuse_two_tensors
from ..shared_qk import shared_qk_attention
from .transformers_options import Options
from .transformers_reference import transformers_attention


class TransformersLSH(SharedQK):
    """`LSHSelfAttention` of transformers' Reformer without its projections: what it computes from qk and v.

    Kitaev et al. 2020, section 2, with logits q·k̂ as printed there, without 1/√D. Its two linear layers are replaced by the
    given tensors, so that attention alone is measured, with its hashing; it is in eval mode, without dropout. Buckets are drawn
    anew at each call. Later keys change the sorted order, so a causal call hides later values only. Raises ValueError on bad
    parameters.
    """

    tier = Tier.LIBRARY
    causality = Causality.VALUES_ONLY
    layout = Layout.BNHD
    requires = ("transformers>=5",)
    grouped = False
    one_width = True

    def __init__(self, problem: Problem, rounds: int = 4, bucket_size: int = 64, look_forward: bool = False) -> None:
        from transformers.models.reformer.configuration_reformer import ReformerConfig
        from transformers.models.reformer.modeling_reformer import LSHSelfAttention

        super().__init__(problem)
        self.options = Options(rounds, bucket_size, look_forward)
        factors = self.options.factors(problem.N)
        config = ReformerConfig(
            num_attention_heads=problem.H,
            attention_head_size=problem.D,
            hidden_size=problem.H * problem.D,
            num_hashes=rounds,
            lsh_attn_chunk_length=bucket_size,
            lsh_num_chunks_before=1,
            lsh_num_chunks_after=int(look_forward),
            lsh_attention_probs_dropout_prob=0.0,
            is_decoder=problem.causal,
            max_position_embeddings=problem.N,
            # given, since otherwise the package logs that it sets the number itself
            num_buckets=factors[0] if len(factors) == 1 else factors,
        )
        self.attention: Any = LSHSelfAttention(config).eval()
        self.attention.query_key = nn.Identity()
        self.attention.value = _Carrier()

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
        """Count hashing, which has no backward, and R rounds over two or three chunks, including what a causal call hides.

        Raises TypeError or ValueError on bad parameters.
        """
        p, options = problem, Options(**params)  # type: ignore[arg-type]
        slots, passes = p.B * p.H * p.N * options.rounds, 3.0 if workload is Workload.FORWARD_BACKWARD else 1.0
        pairs = options.bucket_size * (2 + options.look_forward)
        work = slots * p.D * sum(options.factors(p.N)) + passes * slots * 2.0 * pairs * (p.D + p.M)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=work,
            executed_flops=work,
            traffic_bytes=least_bytes(p, workload),
        )

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Attend once and return the package's buckets: int64 [B, H, R, N], with different numbers in each round."""
        buckets: Tensor = self._attend(inputs[0], inputs[2], None).buckets
        return buckets

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], the same tensor, [B, H, N, D] -> [B, H, N, D], in the memory order [B, N, H, D].

        Raises ValueError unless k is q.
        """
        refuse_two_tensors(q, k)
        o_BNW: Tensor = self._attend(q, v, choices).hidden_states
        o_BHND: Tensor = o_BNW.unflatten(2, (q.shape[1], -1)).transpose(1, 2)
        return o_BHND

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute the package's definition with the same buckets, or with newly drawn ones. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        buckets = self.choose(q, k, v) if choices is None else choices
        qk, v, buckets = (x.flatten(0, 1) for x in (q, v, buckets))
        o = transformers_attention(qk, v, buckets, self.options.bucket_size, self._steps, causal=self.problem.causal)
        o_BHND: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHND

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - heads are alike, and k is q
        """Compute the package's definition for the queries `at`, with buckets [R, N]."""
        assert choices is not None
        m, causal = self.options.bucket_size, self.problem.causal
        return transformers_attention(q[None], v[None], choices[None], m, self._steps, causal=causal, at=at).squeeze(0)

    @property
    def _steps(self) -> tuple[int, ...]:
        """Return the steps from a query's chunk to those that it sees."""
        return (-1, 0, 1) if self.options.look_forward else (-1, 0)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shared-QK attention over all keys, without 1/√D."""
        refuse_two_tensors(q, k)
        return shared_qk_attention(q, v, 1.0, causal=self.problem.causal)

    def _attend(self, qk: Tensor, v: Tensor, buckets: Tensor | None) -> Any:  # noqa: ANN401 - the package's named tuple
        hidden_BNW, v_BNW = (x.transpose(1, 2).flatten(2) for x in (qk, v))
        with _carried(self.attention.value, v_BNW):
            return self.attention(hidden_BNW, buckets=buckets)


class _Carrier(nn.Module):
    """Replaces a projection of the hidden states, and returns the carried tensor."""

    carried: Tensor | None = None

    def forward(self, hidden: Tensor) -> Tensor:  # noqa: ARG002 - of which the values are no function
        assert self.carried is not None
        return self.carried


@contextmanager
def _carried(carrier: _Carrier, x: Tensor) -> Iterator[None]:
    carrier.carried = x
    try:
        yield
    finally:
        carrier.carried = None
