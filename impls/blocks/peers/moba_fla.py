"""MoBA from the package flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D width of queries, keys and values. The package packs all samples into one: [1, B N, H, D].
"""

from collections.abc import Callable

from torch import Tensor

from attnbench.api import HALF, Cell, Cost, Layout, Problem, Scalar, Tier, Workload, io_bytes, nominal_flops

from ...partial.documents import borders
from ..eager.moba import CHUNK, TOPK, MobaAttention, choice_of
from ..moba_cost import exact_flops
from ..work import WALKS, Pairs

_WIDEST = 256


class FlaMoba(MobaAttention):
    """`parallel_moba` of flash-linear-attention: own and chosen blocks by flash-attn's kernels, merged.

    Lu et al. 2025, section 2.2. The package chooses within its call, from means in the dtype of k and scores in float32, and
    cannot be given choices. Raises ValueError on a bad count.
    """

    tier = Tier.LIBRARY
    layout = Layout.BNHD
    decodes = False
    grouped = False
    tunes = True
    requires = ("fla-core>=0.6", "triton>=3.3", "flash-attn>=2.7")  # whose inner functions gave other results before
    devices = ("cuda",)
    dtypes = HALF  # flash-attn's, which it calls
    one_width = True
    widths = (1, _WIDEST)

    def __init__(self, problem: Problem, block: int = CHUNK, topk: int = TOPK) -> None:
        import flash_attn  # noqa: F401 - the package misses it only when it is called
        from fla.ops.moba import parallel_moba

        super().__init__(problem, block, topk)
        self.attend: Callable[..., Tensor] = parallel_moba

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a single block, of which the package makes all earlier ones, and widths that are not aligned."""
        if cell.params.get("topk") == 1:
            return "with topk=1 the package attends to all earlier keys, not to the own block alone"
        D = cell.problem.D
        return f"flash-attn's inner functions, which it calls, take widths in multiples of 8: D={D}" if D % 8 else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes according to the source: every query is scored against the blocks of all samples.

        These are all blocks but the last of each sample. Own blocks count the half that a causal kernel needs. Raises TypeError
        or ValueError on bad parameters.
        """
        p, choice = problem, choice_of(**params)  # type: ignore[arg-type]
        pairs, blocks = Pairs.of(p, workload, choice), p.B * (-(-p.N // choice.block) - 1)
        walked = WALKS[workload] * (pairs.own + pairs.chosen)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact_flops(p, workload, choice),
            executed_flops=2.0 * p.B * p.H * (p.N * blocks + walked) * p.D,
            traffic_bytes=io_bytes(p, workload),
        )

    def choose(self, *inputs: Tensor) -> None:
        """Return None: the package takes no choices."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - as above
        """Attend: [B, H, N, D] three times -> [B, H, N, D], in the memory order [B, N, H, D]."""
        B, _, N, _ = q.shape
        packed = (x.transpose(1, 2).flatten(0, 1).unsqueeze(0) for x in (q, k, v))
        # one for each batch and length that it is called with: the package caches how it cuts by this very tensor
        ends = borders((N,) * B, q.device)
        o = self.attend(*packed, cu_seqlens=ends, max_seqlen=N, chunk_size=self.terms.block, topk=self.choice.count + 1)
        o_BNHD: Tensor = o.squeeze(0).unflatten(0, (B, N))
        return o_BNHD.transpose(1, 2)
