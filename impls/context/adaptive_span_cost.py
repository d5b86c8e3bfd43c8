"""FLOPs and bytes of attention with adaptive spans, by formula, with the initial spans.

B batch, H heads, N tokens, n queries that may see a key, w keys within a span, D query/key width, M value width.
"""

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from .eager.sliding_tiles import Tiles, lengths, tiles
from .eager.span_mask import ramp_distances, reach
from .limits import positive


def first_spans(H: int, span: float) -> list[float]:
    """Compute the initial z of each head: span (h + 1) / H. Raises ValueError on a bad span."""
    return [positive(span, "span") * (head + 1) / H for head in range(H)]


def nearest(sees_itself: object) -> int:
    """Compute the least distance at which a token sees a key, 0 or 1. Raises ValueError unless given true or false."""
    if not isinstance(sees_itself, bool):
        raise ValueError(f"sees_itself={sees_itself!r}: must be true or false")
    return 0 if sees_itself else 1


def cost(p: Problem, workload: Workload, span: float = 256, ramp: float = 32, sees_itself: bool = False) -> Cost:
    """Compute the cost of one call. Raises ValueError on bad parameters.

    Needed are two products over the pairs with m > 0, and four more in the backward. Executed are two over the pairs of all
    tiles, padded to one width; the backward adds five, and two over those of the ramp.
    """
    spans, ramp, first = first_spans(p.H, span), positive(ramp, "ramp"), nearest(sees_itself)
    reaches, trains = [reach(z, ramp, p.N, first) for z in spans], workload is Workload.FORWARD_BACKWARD
    moved = io_bytes(p, workload)
    if workload.decodes:
        # every head takes all keys of the ring: those within the longest span, and the token's own
        pairs = _pairs(max(1, first + max(reaches)), p.N, workload)
        executed, moved = 2 * p.H * pairs, moved + float(p.B * p.kv_heads * pairs * (p.D + p.M) * p.dtype.bytes)
    else:
        forward, backward = (
            sum(_pairs_of(tiles(p.N - first, w, lengths(w, fused=True)[back], 1)) for w in reaches if w) for back in (0, 1)
        )
        ramps = [ramp_distances(z, ramp, p.N, first) for z in spans] if trains else []
        of_ramp = sum(_pairs_of(tiles(p.N - start, w, lengths(w, fused=True)[0], 1)) for start, w in ramps if w)
        executed = 2 * forward + trains * 5 * backward + 2 * of_ramp
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=(3.0 if trains else 1.0) * 2.0 * p.B * sum(_pairs(w, p.N - first, workload) for w in reaches) * (p.D + p.M),
        executed_flops=2.0 * p.B * executed * max(p.D, p.M),
        traffic_bytes=moved,
    )


def _pairs(w: int, n: int, workload: Workload) -> int:
    """Count the pairs of one head for the last of n queries or for all, where each sees up to w keys."""
    return w if workload is Workload.DECODE else w * (w + 1) // 2 + (n - w) * w


def _pairs_of(work: list[Tiles]) -> int:
    return sum(tile.count * tile.length * tile.width for tile in work)
