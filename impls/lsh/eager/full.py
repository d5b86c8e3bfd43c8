"""Exact attention with one tensor as query and key, which LSH attention approximates.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Causality, Cost, Problem, Scalar, Tier, Workload, nominal_flops

from ...partial.backend import backend_that_ran
from ...partial.widths import one_width
from ..family import SharedQK, least_bytes, refuse_two_tensors
from ..reference import SELF, unit
from ..shared_qk import shared_qk_attention, shared_qk_rows
from ..temperature import scale_of


class FullSharedQK(SharedQK):
    """Softmax attention over q·k̂ with k̂ = q / ‖q‖, where a token sees itself only if it sees nothing else, in O(N²).

    Kitaev et al. 2020, section 2, before hashing. `temperature` is q·k̂ / √D as in reformer-pytorch ("package"), or q·k̂
    ("paper": as printed there from eq. 2 on, where the scale is omitted for clarity). It uses torch's fused attention, with
    memory in O(N). A causal call hides later tokens and the own one by shifting keys, others the own one by a mask whose rows
    overlap in memory. Raises ValueError on another temperature.
    """

    tier = Tier.LIBRARY
    causality = Causality.FULL
    grouped = False

    def __init__(self, problem: Problem, temperature: str = "package") -> None:
        super().__init__(problem)
        self.scale = scale_of(temperature, problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the FLOPs of fused attention, whose backward has five products for the forward's two, and bytes.

        A non-causal call computes the logit of a token with itself and hides it. Raises TypeError or ValueError on bad
        parameters.
        """
        _scale(problem, **params)  # type: ignore[arg-type]
        p, trains, rows = problem, workload is Workload.FORWARD_BACKWARD, float(problem.B * problem.H * problem.N)
        others = (p.N - 1) / 2 if p.causal else p.N - 1
        computed = others if p.causal else p.N
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=(3.0 if trains else 1.0) * rows * others * 2.0 * (p.D + p.M),
            executed_flops=(3.5 if trains else 1.0) * rows * computed * 4.0 * max(p.D, p.M),
            traffic_bytes=least_bytes(p, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], the same tensor, [B, H, N, M] -> [B, H, N, M]. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        attend, M = _before if self.problem.causal else _others, v.shape[-1]
        q, v = one_width(q, v)
        return attend(q, v, self.scale)[..., :M]

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record which kernel ran inside."""
        with backend_that_ran() as facts:
            yield facts

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute all N × N logits, -50000 on the diagonal. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        return shared_qk_attention(q, v, self.scale, causal=self.problem.causal)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - heads are alike, and k is q
        """Compute all logits of the queries `at`."""
        return shared_qk_rows(at, q, v, self.scale, causal=self.problem.causal)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shared-QK attention over all keys: what this method is."""
        return self.reference(q, k, v)


def _before(q: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend from each query to the keys before it, from the first to its own.

    Takes queries from the second on and keys up to the last but one: the keys before a token are then those not later.
    """
    k = unit(q)
    rest = F.scaled_dot_product_attention(q[:, :, 1:], k[:, :, :-1], v[:, :, :-1], is_causal=True, scale=scale)
    return torch.cat([v[:, :, :1], rest], dim=2)


def _others(q: Tensor, v: Tensor, scale: float) -> Tensor:
    """Attend from each query to all keys but its own.

    Keys and values are reversed, so that the own key is at N - 1 - i, and each row of the mask is the previous one shifted by
    one.
    """
    masks, k, v = _masks(q), unit(q).flip(2), v.flip(2)
    if len(masks) == 1:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=masks[0], scale=scale)
    o, step = torch.empty_like(v), len(masks)
    for i in range(min(step, q.shape[2])):
        o[:, :, i::step] = F.scaled_dot_product_attention(q[:, :, i::step], k, v, attn_mask=masks[i], scale=scale)
    return o


def _masks(q: Tensor) -> list[Tensor]:
    """Build masks for queries i, i + step, …: [N / step, N], 0 but -50000 where the reversed key is the query's own.

    All rows of one mask are views of 2 N numbers.
    """
    N, step = q.shape[2], _step(q.device)
    # each line begins where a row may
    lines = q.new_zeros(step, -(-(2 * N + step) // step) * step)
    for i in range(min(step, N)):
        lines[i, N - 1 - i] = SELF
    return [lines[i].as_strided((len(range(i, N, step)), N), (step, 1), lines[i].storage_offset()) for i in range(step)]


def _step(device: torch.device) -> int:
    """Return how far apart rows of a mask must begin: by 16 bytes for the kernels of a GPU."""
    return 1 if device.type == "cpu" else 8


def _scale(problem: Problem, temperature: str = "package") -> float:
    """Return the factor of a temperature. Raises TypeError on other parameters, ValueError on a bad value."""
    return scale_of(temperature, problem)
