"""NSA from the package flash-linear-attention, whose operators are distributed as fla-core.

B batch, H heads, K heads of k and v, R = H / K, N tokens, L tokens of a block, D width of queries, keys and values. The
package's own order is [B, N, H, ·].
"""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from attnbench.api import HALF, Cell, Cost, Layout, Problem, Scalar, Tier, Workload, nominal_flops

from ..eager.nsa import NsaAttention
from ..nsa_cost import choice_of, exact_flops, traffic_bytes
from ..nsa_options import NsaOptions
from ..work import Pairs

_WIDEST, _LEAST = 256, 16
_BACKWARD = 7
"""Matrix products per pair in the Triton kernels' backward: dq, dk, dv, and scores and dP in each of two passes."""
_FLASH_BACKWARD = 5
"""Matrix products per pair in that of the window."""


class FlaNsa(NsaAttention):
    """`parallel_nsa` of flash-linear-attention: Triton kernels with one program a token, and flash-attn for the window.

    Yuan et al. 2025, sections 3.2 and 3.3. Given choices are passed on together with the own block; without them the package
    selects within its call, and that is timed. Raises ValueError on bad parameters.
    """

    tier = Tier.TRITON
    layout = Layout.BNHD
    decodes = False
    tunes = True
    requires = ("fla-core>=0.6", "triton>=3.3", "flash-attn>=2.5")
    devices = ("cuda",)
    dtypes = HALF  # those of its window, which is flash-attn's
    one_width = True
    widths = (_LEAST, _WIDEST)

    def __init__(self, problem: Problem, block: int = 64, selected: int = 16, window: int = 512) -> None:
        import flash_attn  # noqa: F401 - the package misses it only when it is called
        from fla.ops.nsa import parallel_nsa

        super().__init__(problem, block, selected, window)
        self.attend: Callable[..., Tensor] = parallel_nsa

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse groups of heads and blocks that its tiles cannot hold."""
        p = cell.problem
        R = p.H // p.kv_heads
        if R < _LEAST or not _is_power_of_two(R):
            return f"its tiles hold a group of heads: H / kv_heads must be a power of two, {_LEAST} at least, not {R}"
        return cls._why_not_these_blocks(cell)

    @classmethod
    def _why_not_these_blocks(cls, cell: Cell) -> str | None:
        try:
            options = NsaOptions(**cell.params)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None  # a mistake, not a limit: the constructor says what is right
        if options.block < _LEAST or not _is_power_of_two(options.block):
            return f"its tiles hold a block: it must be a power of two, {_LEAST} at least, not {options.block}"
        if not _is_power_of_two(options.selected):
            return f"the package would select the next power of two of blocks, not selected={options.selected}"
        if options.block < 2 * options.selected:
            return (
                f"it sorts scores in tiles of block={options.block}, which must be at least twice selected={options.selected}"
            )
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes according to the package's source. Raises TypeError or ValueError on bad parameters.

        Selected blocks are read whole and means up to a tile of L, which are scored twice.
        """
        p, options, trains = problem, NsaOptions(**params), workload is Workload.FORWARD_BACKWARD  # type: ignore[arg-type]
        pairs, L = Pairs.of(p, workload, choice_of(options)), options.block
        # the own block is read whole too, and means in whole tiles of L
        selected = pairs.chosen + p.N * L
        means = sum(-(-((i + 1) // L) // L) * L for i in range(p.N))
        kernels = (selected + means) * (2 + _BACKWARD * trains)
        window = pairs.window(options.window) * (2 + _FLASH_BACKWARD * trains)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact_flops(p, workload, options),
            executed_flops=2.0 * p.B * p.H * (kernels + window + means) * p.D,
            traffic_bytes=traffic_bytes(p, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D] twice, three gates [B, H, N] -> [B, H, N, D], in the memory order [B, N, H, D]."""
        options, turned = self.options, (x.transpose(1, 2) for x in (q, k, v, *gates))
        given = None if choices is None else self._with_own(choices)
        with warnings.catch_warnings():
            # the package warns that it does not select by itself, which is intended here
            warnings.filterwarnings("ignore", message="`block_indices` is provided")
            o = self.attend(
                *turned,
                block_indices=given,
                block_counts=options.selected,
                block_size=options.block,
                window_size=options.window,
                scale=self.scale,
            )
        return o.transpose(1, 2)

    def _with_own(self, choices: Tensor) -> Tensor:
        """Put the own block before the choices: [B, K, N, selected - 1] -> int64 [B, N, K, selected]."""
        N = choices.shape[2]
        own = (torch.arange(N, device=choices.device) // self.options.block).view(N, 1).expand(*choices.shape[:3], 1)
        return torch.cat((own, choices.long()), -1).transpose(1, 2).contiguous()


def _is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0
