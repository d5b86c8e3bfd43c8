"""FLOPs and bytes of sparse FlexAttention, by its blocks and the copies that they need.

B batch, H heads, K heads of k and v, N tokens, S keys of a layout, D query/key width, M value width.
"""

from attnbench.api import Problem, Workload

from .flex_blocks import pairs_visited
from .flex_layout import Layout, Share, shares
from .pattern import Pattern, Shape


def executed_flops(p: Problem, pattern: Pattern, workload: Workload) -> float:
    """Count two products over all pairs of visited blocks; the backward has five, since it computes the scores again."""
    pairs = sum(_visited(share, layout) for share in shares(pattern, Shape.of(p)) for layout in share.layouts)
    return (3.5 if workload is Workload.FORWARD_BACKWARD else 1.0) * 2.0 * p.B * pairs * (p.D + p.M)


def peak_bytes(p: Problem, pattern: Pattern, workload: Workload) -> float:
    """Count the bytes of a forward as compiled for a CPU; of a backward, which only CUDA has, what is kept and gradients."""
    parts = shares(pattern, Shape.of(p))
    heads, wide = p.H if len(parts) > 1 else p.kv_heads, max(4, p.dtype.bytes)
    if workload is Workload.FORWARD_BACKWARD:
        kept = sum(_copies(p, share, layout, heads) + _output(p, share, p.M) for share in parts for layout in share.layouts)
        inputs = p.N * (p.H * p.D + p.kv_heads * (p.D + p.M))
        return float(p.B * p.dtype.bytes * (2 * kept + inputs + p.H * p.N * p.M))
    if len(parts[0].layouts) > 1:
        return float(p.B * wide * _merged(p, parts[0]) + _narrow(p))
    done, peak = 0.0, 0.0
    for share in parts:
        call = _copies(p, share, share.layouts[0], heads) + _kernel(p, share, share.layouts[0], heads)
        peak, done = max(peak, done + call), done + _output(p, share, p.M)
    spread = p.H * p.N * (p.D + p.M) if heads != p.kv_heads else 0
    return float(p.B * p.dtype.bytes * (spread + max(peak, 2 * done if len(parts) > 1 else 0)))


def _visited(share: Share, layout: Layout) -> int:
    pairs = pairs_visited(layout.first, layout.stop, layout.keys)
    return pairs * (len(share.heads) if layout.first.shape[0] == 1 else 1)


def _copies(p: Problem, share: Share, layout: Layout, heads: int) -> float:
    """Count the numbers in copies of q, k and v: of some heads, and in another order or with a summary."""
    some, h = len(share.heads) < p.H, len(share.heads)
    kv = (h if some else _heads_of_keys(p, layout, heads)) * layout.keys * (p.D + p.M)
    slices = h * p.N * (2 * p.D + p.M) if some else 0
    moved = (h * p.N * p.D if layout.order is not None else 0) + kv
    return slices + (0 if layout.order is None and layout.cells is None else moved)


def _kernel(p: Problem, share: Share, layout: Layout, heads: int) -> float:
    """Count the numbers of the kernel's output, and of copies that it makes of k and v."""
    kv = len(share.heads) if len(share.heads) < p.H else _heads_of_keys(p, layout, heads)
    return _output(p, share, p.M) + kv * layout.keys * (p.D + p.M)


def _heads_of_keys(p: Problem, layout: Layout, heads: int) -> int:
    """Count the heads of keys: summaries with different cells for each head need keys for each head of q."""
    return heads if layout.cells is None or layout.cells.shape[0] == 1 else p.H


def _merged(p: Problem, share: Share) -> float:
    """Count the numbers of the call by residues: ordered q, k and v, k and v with a sink, the kernel's copy, and its output."""
    ordered = p.N * (p.H * p.D + p.kv_heads * (p.D + p.M))
    return ordered + 2 * p.kv_heads * (p.N + 1) * (p.D + p.M + 2) + _output(p, share, p.M + 2)


def _narrow(p: Problem) -> float:
    """Count the bytes of q, k and v in float32, for half dtypes."""
    return p.B * p.N * (p.H * p.D + p.kv_heads * (p.D + p.M)) * 4 if p.dtype.bytes < 4 else 0


def _output(p: Problem, share: Share, width: int) -> float:
    return len(share.heads) * p.N * width
