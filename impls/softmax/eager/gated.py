"""Softmax attention whose output is gated; B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width."""

from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload

from ..library.sdpa import SdpaSoftmax


class GatedSoftmax(SdpaSoftmax):
    """softmax(q kᵀ / √D) v ⊙ σ(x), Qiu et al. 2025, their position G1, elementwise; x [B, H, N, M] is the fourth input.

    That x is made from the token by a matrix of its own is not part of the attention. Attends by torch's fused kernels.
    """

    paper = "arXiv:2505.06708"
    is_softmax = False
    weighs = False

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and what each output is gated by."""
        return *super().projections(problem), Projection("gate", problem.H, problem.M)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count as softmax attention does, and read the gate; the backward reads it again, and writes its gradient."""
        p, plain = problem, super().cost(problem, params, workload)
        tokens = {Workload.DECODE: 1, Workload.FORWARD_BACKWARD: 3 * p.N}.get(workload, p.N)
        return plain.model_copy(update={"traffic_bytes": plain.traffic_bytes + tokens * p.B * p.H * p.M * p.dtype.bytes})

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, H, N, M] and bool [B, N] or None -> [B, H, N, M]."""
        return super().forward(q, k, v, key_mask) * x.sigmoid()

    def reference(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Compute all N × N scores."""
        return super().reference(q, k, v, key_mask) * x.sigmoid()

    def rows(self, head: int, at: Tensor, *inputs: Tensor, **key_mask: Tensor | None) -> Tensor:  # type: ignore[override]
        """Compute the scores of the queries `at` with all keys."""
        return super().rows(head, at, *inputs[:3], **key_mask) * inputs[3][at].sigmoid()  # type: ignore[arg-type]

    def exact(self, *inputs: Tensor) -> Tensor:
        """Softmax attention, with the same gate."""
        return super().exact(*inputs[:3]) * inputs[3].sigmoid()

    def prefill(self, *inputs: Tensor, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt causally, and keep its keys and values. Raises ValueError where it does not fit."""
        o, cache = super().prefill(*inputs[:3], capacity=capacity)
        return o * inputs[3].sigmoid(), cache

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all keys and values, and attend to them and those before at once. Raises ValueError beyond the capacity."""
        o, cache = super().extend(*inputs[:3], state=state)
        return o * inputs[3].sigmoid(), cache

    def step(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append one key and value, and attend to all of them. Raises ValueError beyond the capacity."""
        o, cache = super().step(*inputs[:3], state=state)
        return o * inputs[3].sigmoid(), cache
