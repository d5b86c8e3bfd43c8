"""Based's linear attention by flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, N tokens, D query/key width, M value width. The package's own order is [B, N, H, ·]; these two operators first
transpose that, so that inputs in the order [B, H, N, ·] are read as they are.
"""

from collections.abc import Callable

from torch import Tensor

from attnbench.api import Cell, Cost, DType, Problem, Scalar, Tier, Workload, default_scale, io_bytes, nominal_flops

from ..family import LinearFamily

EPS = 1e-6
"""What the package adds to the denominator; it has no parameter for it."""
WIDEST = {"parallel": 128, "fused_chunk": 16}
"""Largest D that the kernels of each form take."""
_TILE, _BACKWARD_TILE = 128, 64
"""Queries of a tile of the quadratic form."""
_CHUNK = 16
"""Tokens of a chunk of the other form."""


class FlaBased(LinearFamily):
    """`parallel_based` (quadratic) or `fused_chunk_based` (by chunks) of flash-linear-attention, chosen by `form`.

    Arora et al. 2024, section 4.1: sim(q, k) = 1 + s + s²/2 with s = q·k / √D, and 1e-6 added to the denominator. Raises
    ValueError on an unknown form.
    """

    paper = "arXiv:2402.18668"
    tier = Tier.TRITON
    decodes = False
    masks = False
    tunes = True
    requires = ("fla-core>=0.6", "triton>=3.3")
    devices = ("cuda",)
    causal_only = True
    because = "linear.full(feature_map=taylor) does the form without a mask"
    grouped = False
    dtypes = (DType.FLOAT32, DType.BFLOAT16)  # sums rounded to float16 pass 65504 at some ten thousand tokens

    def __init__(self, problem: Problem, form: str = "parallel") -> None:
        _known(form)
        from fla.ops import based

        super().__init__(problem, feature_map="taylor", eps=EPS)
        self.attend: Callable[..., Tensor] = getattr(based, f"{form}_based")

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse widths that the form does not take."""
        p, form = cell.problem, str(cell.params.get("form", "parallel"))
        if form in WIDEST and WIDEST[form] < p.D:
            return f"form={form} takes D up to {WIDEST[form]}, not D={p.D}"
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes according to the package's source. Raises TypeError or ValueError on bad parameters.

        `parallel`: all pairs of a query's tile and those before; the backward has four products of width D and three of M.
        `fused_chunk`: a state of D + D² rows, read and written; the backward has two states, with five products.
        """
        form = _form(**params)  # type: ignore[arg-type]
        p, trains = problem, workload is Workload.FORWARD_BACKWARD
        if form == "parallel":
            work = _pairs(p.N, _TILE) * (p.D + p.M) + trains * _pairs(p.N, _BACKWARD_TILE) * (4 * p.D + 3 * p.M)
        else:
            products = _CHUNK * (p.D + p.M + trains * (4 * p.D + 3 * p.M))
            work = p.N * ((2.0 + 5 * trains) * (p.D + p.D * p.D) * p.M + products)
        C = 1 + p.D + p.D * (p.D + 1) // 2
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=p.B * p.H * p.N * (12.0 if trains else 4.0) * C * p.M,
            executed_flops=2.0 * p.B * p.H * work,
            traffic_bytes=io_bytes(p, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M]."""
        turned = (x.transpose(1, 2) for x in (q, k, v))
        return self.attend(*turned, scale=default_scale(self.problem), use_norm=True).transpose(1, 2)


def _known(form: str) -> None:
    if form not in WIDEST:
        raise ValueError(f"form={form!r}: must be one of {', '.join(WIDEST)}")


def _form(form: str = "parallel") -> str:
    """Return the one parameter, for costs without the package. Raises ValueError on an unknown form."""
    _known(form)
    return form


def _pairs(N: int, tile: int) -> float:
    tiles = -(-N // tile)
    return tile * tile * tiles * (tiles + 1) / 2
