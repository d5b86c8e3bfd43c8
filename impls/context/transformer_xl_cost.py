"""FLOPs and bytes of attention in segments with relative positions, by formula.

Left out: the packed copies of k and v that some CPUs make of float16 and bfloat16. B batch, H heads, X = B H, N tokens, S
segments of L tokens, W = memory + L keys of a window, D query/key width, M value width.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..partial.scratch import forward_scratch
from .limits import whole
from .relative import SCORES
from .segments import Segments, Tile


def cost(p: Problem, workload: Workload, segment: int = 512, memory: int | None = None) -> Cost:
    """Compute the cost of one call. Raises ValueError on bad parameters."""
    whole(segment, "segment")
    segments = Segments.of(p.N, segment, segment if memory is None else whole(memory, "memory", least=0))
    work, exact = _Work(p, segments), _exact_flops(p, segments, workload)
    peaks = {Workload.FORWARD: work.forward, Workload.FORWARD_BACKWARD: work.backward, Workload.DECODE: work.step}
    peak = peaks.get(workload, work.all_steps)()
    return Cost(
        nominal_flops=nominal_flops(p, workload),
        exact_flops=exact,
        executed_flops=_step_flops(p, segments, workload) if workload.decodes else _executed_flops(p, segments, workload),
        traffic_bytes=io_bytes(p, workload) + _cache_bytes_moved(p, segments, workload),
        peak_bytes=float(peak),
    )


def _seen(p: Problem, segments: Segments, workload: Workload) -> int:
    """Count the pairs of one head; for DECODE those of the last token."""
    return segments.seen(p.N - 1) if workload is Workload.DECODE else segments.pairs()


def _exact_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count content, position and values of each pair, and W_r once for each query.

    The backward adds dP, dq by content and dq by position for each pair; dk and dv for pairs within a segment; and dW_r and the
    gradient through W_r for each query.
    """
    tokens = 1 if workload is Workload.DECODE else p.N
    pair, token = 2 * p.D + p.M, p.D * p.D
    work = _seen(p, segments, workload) * pair + tokens * token
    if workload is Workload.FORWARD_BACKWARD:
        work += segments.pairs() * pair + segments.own_pairs() * (p.D + p.M) + 2 * tokens * token
    return 2.0 * p.B * p.H * work


def _step_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count the same for steps, with keys and values padded to one width."""
    more = _seen(p, segments, workload) * (2 * max(p.D, p.M) - p.D - p.M)
    return _exact_flops(p, segments, workload) + 2.0 * p.B * p.H * more


def _executed_flops(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count all pairs of windows, one more distance, and in the backward the scores again."""
    queries = segments.count * segments.L
    content, position, own = (queries * keys for keys in (segments.width, segments.width + 1, segments.L))
    work = content * 2 * max(p.D, p.M) + position * p.D + p.N * p.D * p.D
    if workload is Workload.FORWARD_BACKWARD:
        work += content * (2 * p.D + p.M) + position * 2 * p.D + own * (p.D + p.M) + 2 * p.N * p.D * p.D
    return 2.0 * p.B * p.H * work


def _cache_bytes_moved(p: Problem, segments: Segments, workload: Workload) -> float:
    """Count the bytes of keys and values that steps read, including the token's own."""
    if not workload.decodes:
        return 0.0
    return float(_seen(p, segments, workload) * p.B * p.H * (p.D + p.M) * p.dtype.bytes)


@dataclass(frozen=True)
class _Work:
    """Bytes that a call holds, by what holds them."""

    p: Problem
    segments: Segments

    def forward(self) -> float:
        """Count the bytes of the forward: queries twice, what is cut, the output, and a tile of scores being attended."""
        p, (tokens, scores) = self.p, self._tile()
        part = tokens * (max(p.D, p.M) * p.dtype.bytes + self._wide)
        attending = part + self._filled_tile(tokens) + forward_scratch(p, self.segments.L, self.segments.width)
        tile = scores * self._wide + max(self._mask(), attending, tokens * p.D * self._wide)
        return self._queries(2) + self._cut(0) + self._output() + tile

    def backward(self) -> float:
        """Count the bytes of the backward: queries thrice, four gradients, two tiles of scores, and copies."""
        p, (tokens, scores) = self.p, self._tile()
        filled = self.segments.count * self.segments.L
        gradients = p.B * p.H * filled * (3 * p.D + p.M) * p.dtype.bytes
        tile = (2 * scores + tokens * p.D + self._copied(tokens)) * self._wide
        return self._queries(3) + self._cut(p.M) + self._output() + gradients + tile

    def _copied(self, tokens: int) -> int:
        """Count the numbers in copies of windows for products where several rows overlap; in half precision the whole tile."""
        p, windows = self.p, tokens // self.segments.L * self.segments.width
        if p.dtype.bytes < self._wide:
            return (tokens + windows) * (p.D + p.M)
        return windows * max(p.D, p.M) if self._first()[0].stop > 1 else 0

    def step(self) -> float:
        """Count the bytes of the last token's step."""
        return self._step(self.segments.seen(self.p.N - 1))

    def all_steps(self) -> float:
        """Count the bytes of decoding everything: the step that sees most, the output before it, and the state."""
        p, L = self.p, self.segments.L
        state = p.B * p.H * self.segments.width * (p.D + p.M) * p.dtype.bytes
        most = max(self.segments.seen(last) for last in (p.N - 1, p.N // L * L - 1))
        return self._step(most) + p.B * p.H * max(p.D, p.M) * p.dtype.bytes + state

    def _step(self, seen: int) -> float:
        """Count the bytes of a step: content and position queries, scores of each distance, output and logsumexp."""
        p, rows, widest = self.p, self.p.B * self.p.H, max(self.p.D, self.p.M)
        filled = rows * (seen + (p.D < p.M)) * widest * p.dtype.bytes if p.D != p.M else 0
        return rows * ((2 * p.D + widest) * p.dtype.bytes + (1 + seen) * self._wide) + filled

    @property
    def _wide(self) -> int:
        return max(4, self.p.dtype.bytes)

    def _first(self) -> Tile:
        return next(self.segments.tiles(self.p.B * self.p.H, SCORES))

    def _tile(self) -> tuple[int, int]:
        """Count the queries and the scores of the first tile, which is the largest."""
        rows, segments = self._first()
        tokens = (rows.stop - rows.start) * (segments.stop - segments.start) * self.segments.L
        return tokens, tokens * (self.segments.width + 1)

    def _mask(self) -> int:
        """Count the bytes of a tile's mask: one for each of the first segments, and another while it is made."""
        _, segments = self._first()
        square = self.segments.L * self.segments.width
        return square * (1 + (segments.stop - segments.start if self.segments.memory else 0))

    def _queries(self, times: int) -> float:
        return float(times * self.p.B * self.p.H * self.p.N * self.p.D * self.p.dtype.bytes)

    def _cut(self, more: int) -> float:
        """Count the bytes of copies of queries and dL/do where the last segment is padded, and of windows of k and v."""
        p, filled = self.p, self.segments.count * self.segments.L
        queries = filled * (2 * p.D + more) if filled != p.N else 0
        windows = (self.segments.memory + filled) * (p.D + p.M) if self.segments.filled else 0
        return float(p.B * p.H * (queries + windows) * p.dtype.bytes)

    def _output(self) -> float:
        return float(self.p.B * self.p.H * self.segments.count * self.segments.L * (self.p.M * self.p.dtype.bytes + self._wide))

    def _filled_tile(self, tokens: int) -> float:
        """Count the bytes of queries and windows of keys, or of values, padded to the wider width."""
        p = self.p
        if p.D == p.M:
            return 0.0
        windows = tokens // self.segments.L * self.segments.width
        return float((windows + (tokens if p.D < p.M else 0)) * max(p.D, p.M) * p.dtype.bytes)
