"""FLOPs and bytes of attention over pooled keys; peaks leave out the scratch of the fused kernels.

B batch, H heads, K heads of k and v, N tokens, S anchors, D query/key width, M value width, W the wider of both; T tiles of n
tokens that meet R bins each.
"""

from functools import cache

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .pooling import factored_size


def cost_of(p: Problem, levels: tuple[int, ...], workload: Workload) -> Cost:
    """Compute the cost of one call; the definition of pooling needs sums only, and no products.

    Attention is fused: its backward has five products for the forward's two.
    """
    trains, pairs = workload is Workload.FORWARD_BACKWARD, 2.0 * p.B * p.H * p.N * sum(levels)
    tiles, met, size = _tiles(p.N, levels)
    pooling = 2.0 * p.B * p.kv_heads * (p.D + p.M) * tiles * met * (size + sum(levels))
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=(3.0 if trains else 1.0) * pairs * (p.D + p.M),
        executed_flops=(2.0 if trains else 1.0) * pooling + (3.5 if trains else 1.0) * pairs * 2 * max(p.D, p.M),
        traffic_bytes=io_bytes(p, workload),
        peak_bytes=_backward_peak(p, levels) if trains else _forward_peak(p, levels),
    )


_tiles = cache(factored_size)


def _forward_peak(p: Problem, levels: tuple[int, ...]) -> float:
    """Count the bytes beside the anchors while values are pooled, or while queries attend.

    Attending holds the output, a logsumexp, and queries padded to the width of values.
    """
    output = p.B * p.H * p.N * max(p.D, p.M) * p.dtype.bytes
    attending = output * (2 if p.M > p.D else 1) + p.B * p.H * p.N * max(4, p.dtype.bytes)
    return _anchors(p, levels) + max(_pooling(p, levels, p.M), attending)


def _backward_peak(p: Problem, levels: tuple[int, ...]) -> float:
    """Count the bytes while softmax is differentiated, or once all gradients exist, that of keys with its ragged copy."""
    e, keys, rows, width = p.dtype.bytes, p.B * p.kv_heads, p.B * p.H * p.N, max(p.D, p.M)
    softmax = rows * (width * (3 if p.M != p.D else 2) * e + max(4, e)) + 2 * _anchors(p, levels)
    gradients = (rows * (width + p.D) + keys * p.N * (p.D + p.M)) * e
    return max(softmax, gradients + _pooling(p, levels, p.D))


def _anchors(p: Problem, levels: tuple[int, ...]) -> float:
    """Count the bytes of pooled keys and values, and of the narrower one padded to the width of the other."""
    filled = max(p.D, p.M) if p.M != p.D else 0
    return float(sum(levels) * p.B * p.kv_heads * (p.D + p.M + filled) * p.dtype.bytes)


def _pooling(p: Problem, levels: tuple[int, ...], width: int) -> float:
    """Count the bytes of the sums of tiles, and of the copy that a ragged length needs."""
    tiles, met, size = _tiles(p.N, levels)
    ragged = tiles * size if tiles * size > p.N else 0
    return float(p.B * p.kv_heads * width * (ragged + tiles * met) * p.dtype.bytes)
