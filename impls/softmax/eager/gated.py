"""Softmax attention whose output every channel of a token gates.

B batch, H heads, K heads of k and v, N tokens, n rows, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload

from ..library.sdpa import SdpaSoftmax


class GatedSoftmax(SdpaSoftmax):
    """softmax(q kᵀ / √D) v ⊙ σ(x), Qiu et al. 2025, their position G1, elementwise; x [B, H, N, M] is the fourth input.

    That x is made from the token by a matrix of its own is not part of the attention. Attends by torch's fused kernels.
    """

    paper = "arXiv:2505.06708"
    is_softmax = False

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and what each output is gated by."""
        return *super().projections(problem), Projection("gate", problem.H, problem.M)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count as softmax attention does, and read the gate; the backward reads it again, and writes its gradient."""
        p, plain = problem, super().cost(problem, params, workload)
        tokens = {Workload.DECODE: 1, Workload.FORWARD_BACKWARD: 3 * p.N}.get(workload, p.N)
        gate = tokens * p.B * p.H * p.M * p.dtype.bytes
        return plain.model_copy(update={"traffic_bytes": plain.traffic_bytes + gate})

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, H, N, M] and bool [B, N] or None -> [B, H, N, M]."""
        return super().forward(q, k, v, key_mask) * x.sigmoid()

    def reference(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Compute all N × N scores."""
        return super().reference(q, k, v, key_mask) * x.sigmoid()

    def rows(  # type: ignore[override]
        self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, x: Tensor, key_mask: Tensor | None = None
    ) -> Tensor:
        """Compute the scores of the queries `at` with all keys."""
        return super().rows(head, at, q, k, v, key_mask) * x[at].sigmoid()

    def exact(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        """Softmax attention, with the same gate."""
        return super().exact(q, k, v) * x.sigmoid()

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, *, capacity: int) -> tuple[Tensor, State]:  # type: ignore[override]
        """Attend to the prompt causally, and keep its keys and values. Raises ValueError where it does not fit."""
        o, cache = super().prefill(q, k, v, capacity=capacity)
        return o * x.sigmoid(), cache

    def state_after(self, *inputs: Tensor, capacity: int) -> State:
        """Keep the keys and values of a prompt: a gate leaves nothing behind. Raises ValueError where it does not fit."""
        return super().state_after(*inputs[:3], capacity=capacity)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all keys and values, and attend to them and those before at once. Raises ValueError beyond the capacity."""
        *qkv, x = inputs
        o, cache = super().extend(*qkv, state=state)
        return o * x.sigmoid(), cache

    def step(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Append one key and value, and attend to all of them. Raises ValueError beyond the capacity."""
        o, cache = super().step(q, k, v, state=state)
        return o * x.sigmoid(), cache
