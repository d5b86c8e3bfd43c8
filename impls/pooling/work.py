"""FLOPs of some queries with some keys by torch's fused kernel, and its memory on a CPU.

Left out: the packed copies of k and v that some CPUs make of float16 and bfloat16.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width, W the wider of the two.
"""

from dataclasses import dataclass

from attnbench.api import Cost, Problem, Workload, io_bytes, nominal_flops

from ..partial.scratch import backward_scratch, forward_scratch

_FUSED_BACKWARD = 5
"""Products of a backward that computes the scores again, where the forward has two (Dao et al. 2022, appendix B)."""


@dataclass(frozen=True)
class Call:
    """One call of the fused kernel: a problem, and the numbers of queries and keys in each head."""

    p: Problem
    queries: int
    keys: int

    @property
    def width(self) -> int:
        """Compute W, the wider of D and M."""
        return max(self.p.D, self.p.M)

    def cost(self, workload: Workload, peak: float, seen: float | None = None) -> Cost:
        """Compute the cost: two products over all pairs, four more in the backward; executed at the wider width.

        The executed backward computes the scores again. `seen` counts the visible keys of all samples, where some are hidden.
        """
        both, pairs = workload is Workload.FORWARD_BACKWARD, 2.0 * self.p.B * self.p.H * self.queries * self.keys
        needed = pairs if seen is None else 2.0 * self.p.H * self.queries * seen
        return Cost(
            nominal_flops=nominal_flops(self.p, workload),
            exact_flops=needed * (self.p.D + self.p.M) * (3 if both else 1),
            executed_flops=pairs * self.width * (2 + (_FUSED_BACKWARD if both else 0)),
            traffic_bytes=io_bytes(self.p, workload),
            peak_bytes=peak,
        )

    def rows(self, heads: int, tokens: int, width: int) -> float:
        """Count the bytes of [B, heads, tokens, width]."""
        return float(self.p.B * heads * tokens * width * self.p.dtype.bytes)

    @property
    def output(self) -> float:
        """Count the bytes of the output as the kernel writes it, and of the logsumexp."""
        return self.rows(self.p.H, self.queries, self.width) + float(self.p.B * self.p.H * self.queries * self._wide)

    @property
    def pulling_back(self) -> float:
        """Count the bytes of gradients as the kernel writes them, padded dL/do, and one thread's scratch."""
        queries, keys = (self.rows(*x, self.width) for x in ((self.p.H, self.queries), (self.p.kv_heads, self.keys)))
        filled = queries if self.width > self.p.M else 0
        return queries + 2 * keys + filled + backward_scratch(self.p, self.queries, self.keys)

    @property
    def forward_scratch(self) -> float:
        """Count the bytes of one thread's scratch."""
        return float(forward_scratch(self.p, self.queries, self.keys))

    @property
    def _wide(self) -> int:
        return max(4, self.p.dtype.bytes)
